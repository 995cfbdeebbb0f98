"""The files of a table: where they live, what they are called, and their manifest and page index."""
