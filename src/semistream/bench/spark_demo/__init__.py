"""The demonstration on Spark: a bursty stream of sales, enriched while it comes, and checked."""
