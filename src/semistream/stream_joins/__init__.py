"""Joins of two streams: one file per algorithm, the driver that they share, and their parts below."""
