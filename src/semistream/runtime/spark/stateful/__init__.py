"""What joins share that keep state in Spark's state store."""
