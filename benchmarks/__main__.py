"""Run benchmarks: ``python -m benchmarks [area ...] [--short]``."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import time

import benchmarks


def areas() -> list[str]:
    """Names of the areas: the modules of this package that do not start with an underscore."""
    found = (module.name for module in pkgutil.iter_modules(benchmarks.__path__))
    return sorted(name for name in found if not name.startswith("_"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("area", nargs="*", help=f"all by default; known: {', '.join(areas())}")
    parser.add_argument("--short", action="store_true", help="small sizes, a few seconds per area")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.area) - set(areas()))
    if unknown:
        parser.error(f"unknown area {', '.join(unknown)}; known: {', '.join(areas())}")
    for area in arguments.area or areas():
        print(f"\n### {area}", flush=True)
        start = time.perf_counter()
        importlib.import_module(f"benchmarks.{area}").main(short=arguments.short)
        print(f"({time.perf_counter() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
