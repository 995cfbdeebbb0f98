"""What the benchmark of punctuated streams measures, and how large."""

from dataclasses import dataclass

from semistream.core.errors import InvalidArgument

__all__ = ["PARTS", "PunctuatedSpec"]

PARTS = ("scheduling", "xjoin", "purging", "choice", "memory", "spark")


@dataclass(frozen=True, kw_only=True)
class PunctuatedSpec:
    """Sizes of one run; the defaults are those that the targets speak of.

    Attributes
    ----------
    news
        News items (S4's workload), each with ten accesses; as many auctions, each with ten bids.
    memory_auctions
        Auctions of the part "memory".
    spark_tuples
        Auctions and bids of the part "spark", together.
    spark_batch_tuples
        Of a micro-batch; the last one is that of the figures about state.
    spark_repeats
        How often each query of the part "spark" runs.
    repeats
        How often each other measurement is taken; medians are reported.
    parts
        Which of `PARTS` to measure.

    Examples
    --------
    >>> PunctuatedSpec(news=500, parts=("purging",)).has_target_size
    False
    """

    news: int = 10_000
    memory_auctions: int = 50_000
    spark_tuples: int = 5_000_000
    spark_batch_tuples: tuple[int, ...] = (1_000_000, 250_000)
    spark_repeats: int = 2
    repeats: int = 3
    seed: int = 0
    parts: tuple[str, ...] = PARTS

    def __post_init__(self) -> None:
        for part in self.parts:
            if part not in PARTS:
                raise InvalidArgument(f"part {part!r} is unknown: use one of {', '.join(PARTS)}")
        least_sizes = {"news": 100, "memory_auctions": 100, "spark_tuples": 1000, "spark_repeats": 1, "repeats": 1}
        for name, least in least_sizes.items():
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name}={getattr(self, name)} must be at least {least}")
        if not self.spark_batch_tuples or min(self.spark_batch_tuples) < 100:
            raise InvalidArgument(f"spark_batch_tuples={self.spark_batch_tuples} must have sizes of at least 100")

    @property
    def has_target_size(self) -> bool:
        """Whether the streams are those that the targets speak of."""
        sizes = ("news", "memory_auctions", "spark_tuples", "spark_batch_tuples")
        return all(getattr(self, size) == getattr(PunctuatedSpec, size) for size in sizes)
