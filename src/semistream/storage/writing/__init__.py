"""Writing versions: sources of rows, sorting, cutting pages, publishing."""
