"""Random numbers: by position, permuted, Zipf-distributed, and bursty arrival times."""
