"""The benchmark of peers: our join beside key-value stores and arrays that user code looks up from Spark."""
