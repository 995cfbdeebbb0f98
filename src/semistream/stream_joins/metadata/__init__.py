"""The parts by which MJoin uses what is known of its streams, and what it learns of itself."""
