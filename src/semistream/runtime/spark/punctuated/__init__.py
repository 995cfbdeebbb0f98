"""Joins of two streams on Spark, which punctuations keep small."""
