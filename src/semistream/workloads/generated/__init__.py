"""Generated tables and streams, after the papers' experiments."""
