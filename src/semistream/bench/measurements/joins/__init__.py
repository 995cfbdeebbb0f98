"""A running join of a stream with a table: its rate, times, page reads, and what it sheds."""
