"""Calibration: what each unit of a join's work costs on this machine."""
