"""The paper's claims: which hold, which do not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from spectr_verify import cli


@pytest.mark.slow
def test_every_claim_gets_the_finding_that_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "claims.json"
    monkeypatch.setattr(sys, "argv", ["spectr-verify", "claims", "--json", str(out)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 0
    assert "refuted" in capsys.readouterr().out
    rows = json.loads(out.read_text())["rows"]
    verdicts = {(row["claim"], row["rule"]): row["holds"] for row in rows}
    published, released, race = "spectr-gbv-published", "spectr-gbv-released", "block-race"
    one = "the text of one round follows the target"
    several = "the text of several rounds follows the target"
    formula = "E[tau] is C = sum of Q(v)(1 - (1 - r(v))^K)"
    grows = "E[tau] grows with K and tends to L"
    single = "with K = 1 it is greedy block verification"
    assert verdicts == {
        (one, published): False,
        (one, released): False,
        (one, race): True,
        (several, published): False,
        (several, released): False,
        (several, race): True,
        (formula, published): False,
        (formula, released): False,
        (formula, race): False,
        (grows, published): False,
        (grows, released): False,
        (grows, race): True,
        (single, published): True,
        (single, released): False,
        (single, race): False,
        ("C is the largest attainable E[tau]", "(formula)"): False,
    }
    for row in rows:
        assert row["evidence"]
        assert row["instance"]
        assert row["holds"] == (row["number"] <= (1e-8 if row["rule"] == "(formula)" else 1e-9))
