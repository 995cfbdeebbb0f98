"""The papers' figures: spec file, run, result file with provenance, plot."""
