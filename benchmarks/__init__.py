"""Benchmarks: one module per area, each with ``main(*, short=False)``."""
