"""Counters of joins, on their way into the query's progress."""
