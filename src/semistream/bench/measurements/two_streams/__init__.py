"""Joins of two punctuated streams: S4's experiments, and the choice that S4 leaves open."""
