"""Joins of two streams on Spark, whose state punctuations keep small."""
