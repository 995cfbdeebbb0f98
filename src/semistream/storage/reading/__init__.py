"""Reading pages: where they are, reads of runs and of scattered pages, reading ahead, copying rows out."""
