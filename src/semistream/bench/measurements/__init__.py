"""What benchmarks measure: each kind is a function from a spec's parameters to its measurements."""
