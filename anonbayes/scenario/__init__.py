"""Scenarios: a question about a release in a TOML file, answered by ``anonbayes run``.

`kinds` says which keys a file may have; `schema` turns that into checks, into the JSON schema and
into a table for people; `load` reads files; `run` answers; `outputs` writes; `starter` begins a
file from a table's columns.
"""
