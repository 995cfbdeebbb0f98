"""The reproduction report: what the papers claim of their figures beside what was measured here, with verdicts."""
