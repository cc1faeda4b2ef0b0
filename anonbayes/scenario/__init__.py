"""Scenarios: questions about a release in TOML files, answered by ``anonbayes run``.

`keys` declares sections and their keys; `load` reads and checks files and finds the kind of a
scenario, each of which has its own module; `outputs` writes results; `starter` writes a first
scenario for a table.
"""
