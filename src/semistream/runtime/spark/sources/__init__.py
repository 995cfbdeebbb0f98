"""Generators of `semistream.workloads` as Spark data sources."""
