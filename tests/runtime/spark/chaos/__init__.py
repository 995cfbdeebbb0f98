"""Kills parts of queries in mid-flight, lets them go on, and compares what they wrote with a naive join."""
