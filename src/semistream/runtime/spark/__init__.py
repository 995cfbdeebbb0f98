"""The runtime on Spark: the only place that imports pyspark."""
