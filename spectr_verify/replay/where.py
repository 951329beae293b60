"""Which line of the code under test is being run."""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType

import numpy as np
import torch

_RUNNER = str(Path(__file__).with_name("runner.py"))
_LIBRARIES = tuple(str(Path(file).parent) for file in (__file__, torch.__file__, np.__file__))
_STANDARD = sysconfig.get_path("stdlib")


def where() -> str:
    """The innermost line of the code under test: ", at file.py:12: `the line`"; nothing outside of a run."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != _RUNNER:
        file = frame.f_code.co_filename
        if may_be_under_test(file):
            return f", at {file}:{frame.f_lineno}: `{linecache.getline(file, frame.f_lineno).strip()}`"
        frame = frame.f_back
    return ""


def may_be_under_test(file: str) -> bool:
    """Whether a file is none of Python's, torch's, numpy's or ours."""
    standard = file.startswith(_STANDARD) and "site-packages" not in file
    return os.path.isabs(file) and not standard and not file.startswith(_LIBRARIES)


def importing() -> bool:
    """Whether the code under test waits for an import."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != _RUNNER:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
