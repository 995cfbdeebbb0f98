"""Joins of two streams: one file per algorithm."""
