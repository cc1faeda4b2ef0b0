"""The command line: one thin file per command."""

from __future__ import annotations
