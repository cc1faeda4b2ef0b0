"""Commands of the command line, one file each; `cli` puts them together."""
