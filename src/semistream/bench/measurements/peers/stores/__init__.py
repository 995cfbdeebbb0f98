"""Stores of packed rows that user code can look keys up in."""
