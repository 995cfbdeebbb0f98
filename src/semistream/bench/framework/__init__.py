"""Benchmarks: a spec file says what is measured, a run writes a result file, and verdicts, plots and tables read it."""
