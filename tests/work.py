"""Work that does not depend on the machine: how many lines of Python something takes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass
class Lines:
    """Lines run so far."""

    count: int = 0


@contextlib.contextmanager
def counted_lines() -> Iterator[Lines]:
    """Count the lines of Python that run in this thread."""
    lines = Lines()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        lines.count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)
