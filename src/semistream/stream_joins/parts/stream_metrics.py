"""What a join of two streams counts."""

from dataclasses import asdict, dataclass

__all__ = ["StreamMetrics"]


@dataclass
class StreamMetrics:
    """Counters from the start on."""

    left_in: int = 0  # tuples that were taken from the queues
    right_in: int = 0
    rows_out: int = 0
    dropped: int = 0  # tuples that never entered the state, because nothing can match them any more
    purged: int = 0  # tuples that left the state for the same reason, or because both streams are over
    contradicting: int = 0  # tuples that came although a punctuation had excluded them
    punctuations_in: int = 0
    punctuations_out: int = 0  # punctuations that were passed on
    purges: int = 0
    steps: int = 0  # runs of tuples that were worked on

    def as_dict(self) -> dict[str, int]:
        return asdict(self)
