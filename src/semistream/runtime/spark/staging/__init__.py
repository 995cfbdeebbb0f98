"""DataFrames become master tables."""
