"""The corpus of the trained pair: modules of the standard library and nothing else, split by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from toy_models.trained.corpus import Corpus, standard_library

SOURCES = [f"asyncio/part{i}.py" for i in range(40)]


def written(folder: Path, names: list[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"name = {name!r}\n", encoding="utf-8")
    return folder


def texts(corpus: Corpus) -> set[str]:
    return {*corpus.training, *corpus.held_out}


def test_every_source_of_the_library_is_either_trained_on_or_held_out(tmp_path: Path) -> None:
    corpus = standard_library(written(tmp_path, SOURCES))
    assert len(corpus.training) + len(corpus.held_out) == len(SOURCES) == len(texts(corpus))


@pytest.mark.parametrize(
    "name",
    [
        "site-packages/asyncio/streams.py",
        "dist-packages/numpy.py",
        "test/test_abc.py",
        "lib2to3/tests/test_all.py",
        "idlelib/idle_test/test_text.py",
        "encodings/cp437.py",
        "pydoc_data/topics.py",
        "_sysconfigdata__linux_x86_64-linux-gnu.py",
        "sitecustomize.py",
        "config-3.11-x86_64-linux-gnu/python-config.py",
        "asyncio/notes.txt",
    ],
)
def test_what_is_no_module_or_was_left_out_changes_nothing(tmp_path: Path, name: str) -> None:
    alone = standard_library(written(tmp_path / "alone", SOURCES))
    assert standard_library(written(tmp_path / "more", [*SOURCES, name])) == alone


def test_the_hash_is_of_names_and_texts(tmp_path: Path) -> None:
    folder = written(tmp_path, SOURCES)
    before = standard_library(folder).sha256
    assert standard_library(folder).sha256 == before
    (folder / SOURCES[0]).write_text("changed", encoding="utf-8")
    changed = standard_library(folder).sha256
    (folder / SOURCES[0]).rename(folder / "asyncio" / "renamed.py")
    assert len({before, changed, standard_library(folder).sha256}) == 3


def test_the_split_of_a_file_depends_on_its_name_alone(tmp_path: Path) -> None:
    few = standard_library(written(tmp_path / "few", SOURCES[:30]))
    many = standard_library(written(tmp_path / "many", SOURCES))
    assert set(few.held_out) == set(many.held_out) & texts(few)


def test_line_ends_of_another_system_are_read_as_newlines(tmp_path: Path) -> None:
    folder = written(tmp_path, SOURCES)
    before = standard_library(folder)
    for name in SOURCES:
        (folder / name).write_bytes((folder / name).read_bytes().replace(b"\n", b"\r\n"))
    assert standard_library(folder) == before


@pytest.mark.parametrize("names", [[], ["abc.py"], ["test/test_abc.py"]])
def test_too_few_sources_are_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(FileNotFoundError, match="sources of the standard library"):
        standard_library(written(tmp_path, names))


def test_this_python_has_a_corpus_of_millions_of_characters() -> None:
    corpus = standard_library()
    assert sum(map(len, corpus.training)) > 3_000_000
    assert 0.02 < sum(map(len, corpus.held_out)) / sum(map(len, corpus.training)) < 0.15
