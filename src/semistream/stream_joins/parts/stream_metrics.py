"""What a join of two streams counts."""

from dataclasses import asdict, dataclass

__all__ = ["StreamMetrics"]


@dataclass
class StreamMetrics:
    """Counters from the start on.

    Attributes
    ----------
    left_in, right_in
        Tuples that were taken from the queues.
    rows_out
        Rows that left.
    dropped
        Tuples that never entered the state, because nothing can match them any more.
    purged
        Tuples that left the state for the same reason, or because both streams are over.
    contradicting
        Tuples that came although a punctuation had excluded them.
    punctuations_in, punctuations_out
        Punctuations that came, and those that were passed on.
    purges
        How often the state was purged.
    steps
        Runs of tuples that were worked on.
    """

    left_in: int = 0
    right_in: int = 0
    rows_out: int = 0
    dropped: int = 0
    purged: int = 0
    contradicting: int = 0
    punctuations_in: int = 0
    punctuations_out: int = 0
    purges: int = 0
    steps: int = 0

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
