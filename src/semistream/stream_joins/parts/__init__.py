"""The parts that joins of two streams share: keys, queues, state in memory and on disk, results."""
