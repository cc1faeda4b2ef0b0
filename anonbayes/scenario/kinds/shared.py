"""What several kinds of scenarios have in common."""

# ruff: noqa: RUF009  (`key` makes dataclass fields)

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anonbayes.scenario.keys import key

__all__ = ["CHANNELS", "PROTECTS_SOME", "Outputs"]

CHANNELS = ("randomized_response", "rappor", "unary_encoding", "utility_optimized_rr",
            "utility_optimized_rappor")  # fmt: skip
PROTECTS_SOME = ("utility_optimized_rr", "utility_optimized_rappor")


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where results go and which are written."""

    directory: Path | None = key("Directory of the results; by default out/NAME beside the file.",
                                 None)  # fmt: skip
    netcdf: bool = key("Write the draws as netCDF, for ArviZ.", True)
    plots: bool = key("Write plots as PNG.", True)
