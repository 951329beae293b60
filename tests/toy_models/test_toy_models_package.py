"""What importing the package brings, and what it must not."""

from __future__ import annotations

import subprocess
import sys


def test_import_needs_neither_hypothesis_nor_the_toolkit() -> None:
    program = (
        "import sys, toy_models; "
        "assert all(hasattr(toy_models, name) for name in toy_models.__all__); "
        "print([m for m in ('hypothesis', 'spectr_verify', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
