"""One self-contained HTML page from a posterior and its assessment."""
