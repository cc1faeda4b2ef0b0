"""Released tables: what was published, read, made and summarised."""
