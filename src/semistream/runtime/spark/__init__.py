"""The runtime on Spark, classic and Connect: the only place that imports pyspark."""
