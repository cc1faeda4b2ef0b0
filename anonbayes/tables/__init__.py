"""Released tables: what a cell means, which rows cannot be told apart, how files are read."""
