"""Lower rooms never import higher ones."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ["errors", "rounds", "chance", "rules", "bounds", "exact", "replay", "adapters"]
ROOMS += ["decoding", "montecarlo", "simulate", "audit", "report", "testing", "pytest_plugin", "cli"]
"""From the lowest to the highest; bounds and exact stand side by side and do not import each other."""

MODULES = sorted(path for room in ("toy_models", "spectr_verify") for path in (ROOT / room).rglob("*.py"))


def imported(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_downwards(path: Path) -> None:
    names = imported(path)
    room, *inside = path.relative_to(ROOT).with_suffix("").parts
    if room == "toy_models":
        assert not any(name.startswith("spectr_verify") for name in names)
        return
    here = inside[0] if inside[0] in ROOMS else "cli"
    rooms = {name.split(".")[1] for name in names if name.startswith("spectr_verify.")} & set(ROOMS)
    assert all(ROOMS.index(other) <= ROOMS.index(here) for other in rooms), rooms
    assert not {"bounds", "exact"} - {here} & rooms if here in ("bounds", "exact") else True
