"""The parts that joins with state in Spark's state store share."""
