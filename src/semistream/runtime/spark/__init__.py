"""The runtime on Spark, classic and Connect; importing this package loads no pyspark."""
