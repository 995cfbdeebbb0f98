"""What the micro-benchmark measures, and how large."""

from dataclasses import dataclass

from semistream.core.errors import InvalidArgument

__all__ = ["PARTS", "MicroSpec"]

PARTS = ("page-scan", "multimap", "service-rate", "resident-memory")


@dataclass(frozen=True, kw_only=True)
class MicroSpec:
    """Sizes of one run; the defaults are those that the targets speak of.

    Attributes
    ----------
    rows
        Rows of 120 bytes in the master table.
    repeats
        How often each measurement is taken; medians are reported.
    budget_shares
        MESHJOIN's budgets as shares of the table's bytes.
    parts
        Which of `PARTS` to measure.
    multimap_entries, plain_entries
        Entries of the multi-map and of its plain twin.

    Examples
    --------
    >>> MicroSpec(rows=20_000).multimap_entries
    8000
    """

    rows: int = 20_000_000
    page_bytes: int = 64 << 10
    seed: int = 0
    repeats: int = 5
    budget_shares: tuple[float, ...] = (0.01, 0.05, 0.10)
    parts: tuple[str, ...] = PARTS

    def __post_init__(self) -> None:
        for part in self.parts:
            if part not in PARTS:
                raise InvalidArgument(f"part {part!r} is unknown: use one of {', '.join(PARTS)}")
        for name, least in (("rows", 1000), ("repeats", 1), ("page_bytes", 1024)):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name}={getattr(self, name)} must be at least {least}")
        if not all(0 < share <= 1 for share in self.budget_shares):
            raise InvalidArgument(f"budget_shares={self.budget_shares} must be above 0 and at most 1")

    @property
    def has_target_size(self) -> bool:
        """Whether the table is the one that the targets speak of."""
        return (self.rows, self.page_bytes) == (MicroSpec.rows, MicroSpec.page_bytes)

    @property
    def multimap_entries(self) -> int:
        return min(8_000_000, self.rows * 2 // 5)

    @property
    def plain_entries(self) -> int:
        # The twin is quicker on a small map, so this favours the baseline.
        return min(1_000_000, self.multimap_entries)
