"""`semistream.join` on Spark: both completions."""
