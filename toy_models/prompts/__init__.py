"""Prompts to decode from: five sets of different kinds of text, all written for this project.

A set is the file ``<name>.txt``: prompts of one or more lines, with a line ``---`` between two of them. No prompt
begins or ends with whitespace, so a prompt of code ends with the last character of its last line, and the model's
first token is its newline. No person in them is a real one, and the places and events in the news are invented.
"""

from __future__ import annotations

from importlib import resources

from toy_models.tables import TableError

__all__ = ["prompt_sets", "prompts"]

SEPARATOR = "\n---\n"


def prompt_sets() -> tuple[str, ...]:
    """The names of the sets.

    ``code`` has Python functions up to the docstring or the first lines of the body, ``arithmetic`` has word problems,
    ``multilingual`` has sentences to continue or to translate in fifteen languages, ``news`` has openings of reports,
    and ``instructions`` has short tasks.
    """
    return ("code", "arithmetic", "multilingual", "news", "instructions")


def prompts(name: str) -> tuple[str, ...]:
    """The prompts of a set, in a fixed order.

    Raises:
        TableError: there is no set of that name; the message lists those there are.
    """
    if name not in prompt_sets():
        raise TableError(f"there is no prompt set {name!r}; take one of {', '.join(prompt_sets())}")
    text = resources.files("toy_models.prompts").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return tuple(text.removesuffix("\n").split(SEPARATOR))
