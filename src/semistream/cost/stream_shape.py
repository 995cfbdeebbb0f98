"""What a cost model has to know of a stream."""

from dataclasses import dataclass

from semistream.core.errors import InvalidArgument
from semistream.cost.key_distribution import KeyDistribution

__all__ = ["StreamShape"]


@dataclass(frozen=True, kw_only=True)
class StreamShape:
    """How a stream looks in the long run.

    Attributes
    ----------
    keys
        How often keys come, those without a row included.
    missing_share
        The share of tuples whose key has no row in R.
    varlen_bytes
        Bytes of text and other values without a fixed size in a tuple, on average.
    """

    keys: KeyDistribution
    missing_share: float = 0.0
    varlen_bytes: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.missing_share <= 1:
            raise InvalidArgument(f"missing_share={self.missing_share} must be between 0 and 1")
