"""Benchmarks: a spec is run, the run writes a result file with its provenance, plots are drawn from the file."""
