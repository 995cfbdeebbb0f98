"""What a join costs before it runs: a model per operator, calibration, tuner and advisor."""
