"""What joins count, on its way into the query's progress."""
