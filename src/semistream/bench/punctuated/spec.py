"""What the benchmark of punctuated streams measures, and how large."""

from dataclasses import dataclass

from semistream.core.errors import InvalidArgument

__all__ = ["PARTS", "PunctuatedSpec"]

PARTS = ("scheduling", "xjoin", "purging", "choice", "memory")


@dataclass(frozen=True, kw_only=True)
class PunctuatedSpec:
    """Sizes of one run; the defaults are those that the targets speak of.

    Attributes
    ----------
    news
        News items (S4's workload), each with ten accesses; as many auctions, each with ten bids.
    memory_auctions
        Auctions of the part "memory".
    repeats
        How often each measurement is taken; medians are reported.
    parts
        Which of `PARTS` to measure.

    Examples
    --------
    >>> PunctuatedSpec(news=500, parts=("purging",)).has_target_size
    False
    """

    news: int = 10_000
    memory_auctions: int = 50_000
    repeats: int = 3
    seed: int = 0
    parts: tuple[str, ...] = PARTS

    def __post_init__(self) -> None:
        for part in self.parts:
            if part not in PARTS:
                raise InvalidArgument(f"part {part!r} is unknown: use one of {', '.join(PARTS)}")
        for name, least in (("news", 100), ("memory_auctions", 100), ("repeats", 1)):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name}={getattr(self, name)} must be at least {least}")

    @property
    def has_target_size(self) -> bool:
        """Whether the streams are those that the targets speak of."""
        return (self.news, self.memory_auctions) == (PunctuatedSpec.news, PunctuatedSpec.memory_auctions)
