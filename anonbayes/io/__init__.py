"""Reading text files, and atomic writing of all files."""
