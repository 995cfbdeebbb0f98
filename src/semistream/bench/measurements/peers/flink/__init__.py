"""The benchmark beside Flink: our join on Spark and Flink's look-up join in a Paimon table, on the same rows."""
