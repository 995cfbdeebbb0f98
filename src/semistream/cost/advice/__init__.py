"""Advice: which algorithm, layout and settings, by the cost models."""
