"""The points of the grid, and what was measured at each."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast

from semistream.bench.operators.spec import OperatorsSpec
from semistream.operators import algorithm

__all__ = [
    "TARGET_MEMORY_SHARE",
    "TARGET_SKEW",
    "Cell",
    "CellResult",
    "DiskClock",
    "Layout",
    "Times",
    "WarmUp",
    "cells_of",
    "is_lookup",
    "is_scan",
]

Layout = Literal["heap", "clustered"]

TARGET_SKEW = 1.0
TARGET_MEMORY_SHARE = 0.05
# SSBJ's memory at MESHJOIN's rate is searched for among these parts of the target's budget.
_SEARCHED_PARTS = (1 / 2, 1 / 3, 1 / 4, 1 / 6, 1 / 8)


def is_lookup(algorithm: str) -> bool:
    """Whether the algorithm reads a page for every tuple, and so answers a few thousand a second."""
    return algorithm in ("inlj", "cinlj")


def is_scan(algorithm: str, layout: str) -> bool:
    """Whether the algorithm reads the table from end to end; others read a partition at a time."""
    return algorithm in ("meshjoin", "cmeshjoin") or layout == "heap"


@dataclass(frozen=True)
class Cell:
    """One operator on one table, stream and budget."""

    rows: int
    skew: float
    memory_share: float
    algorithm: str
    layout: Layout

    @property
    def is_lookup(self) -> bool:
        return is_lookup(self.algorithm)

    @property
    def is_scan(self) -> bool:
        return is_scan(self.algorithm, self.layout)

    @property
    def weight(self) -> float:
        """About how many seconds the cell takes; the cache of an operator takes longest to fill."""
        if self.is_lookup:
            return 10.0 if self.algorithm == "inlj" or self.skew == 0 else 60.0
        per_million_rows = {"meshjoin": 0.4, "hybridjoin": 1.4}.get(self.algorithm, 1.5 if self.skew == 0 else 3.0)
        return 3.0 + per_million_rows * self.rows / 1e6

    def __str__(self) -> str:
        return (
            f"{self.algorithm} on {self.layout}, {self.rows:,} rows, skew {self.skew:g}, "
            f"memory {100 * self.memory_share:.3g}% of R"
        )


@dataclass(frozen=True)
class WarmUp:
    """How the steady state was reached.

    Attributes
    ----------
    is_steady
        Whether it was, before time was up.
    cache_shares
        The share through the cache over successive windows of work.
    """

    tuples: int
    seconds: float
    is_steady: bool
    cache_shares: list[float]


@dataclass(frozen=True)
class DiskClock:
    """The counted reads of the measured part on a disk of a profile.

    Attributes
    ----------
    tuples_per_s
        By I/O alone.
    tuples_per_s_with_cpu
        With this machine's CPU time added, as if nothing overlapped.
    """

    io_s: float
    tuples_per_s: float
    tuples_per_s_with_cpu: float


@dataclass(frozen=True)
class Times:
    """What a tuple goes through at a given arrival rate, in seconds of the clock that it was measured with.

    Attributes
    ----------
    is_settled
        Whether there was time enough for the number of tuples in the system to come to rest.
    in_system_s
        From arrival to answer.
    waiting_s
        In the stream buffer, or before it; None when the operator does not tell it apart.
    processing_s
        From leaving the stream buffer to the answer.
    """

    arrivals_per_s: float
    tuples: int
    is_settled: bool
    in_system_s: float
    waiting_s: float | None
    processing_s: float | None


@dataclass(frozen=True)
class CellResult:
    """What was measured in a cell.

    Attributes
    ----------
    commit
        Of the code that measured it.
    skipped
        Why nothing was measured; the figures are absent then.
    tuples, scans
        Answered in the measured part, and how often R's bytes were read in it.
    steps
        Iterations of the operator's loop in the measured part.
    waited_s
        How much of the elapsed time passed for want of a core, because of other processes.
    yardstick_s
        What a step of the yardstick took meanwhile, if one was measured.
    tuples_per_s
        On this machine, without the time that other processes took.
    peak_bytes, peak_components
        The most that the operator reported after any step, and its components at that moment.
    """

    cell: Cell
    commit: str | None
    budget_bytes: int
    skipped: str | None = None
    tuples: int = 0
    elapsed_s: float = 0.0
    cpu_s: float = 0.0
    scans: float = 0.0
    reads: int = 0
    seeks: int = 0
    pages_read: int = 0
    bytes_read: int = 0
    steps: int = 0
    waited_s: float = 0.0
    yardstick_s: float | None = None
    tuples_per_s: float = 0.0
    pages_per_1000_tuples: float = 0.0
    cache_share: float = 0.0
    cpu_us_per_tuple: float = 0.0
    peak_bytes: int = 0
    peak_components: dict[str, int] | None = None
    disks: dict[str, DiskClock] | None = None
    times: Times | None = None
    warm_up: WarmUp | None = None
    wall_s: float = 0.0

    def disk(self, name: str) -> DiskClock:
        assert self.disks is not None, "a skipped cell has no rates"
        return self.disks[name]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(content: dict[str, Any]) -> "CellResult":
        """Return what `as_dict` was called on."""
        parts: dict[str, Any] = {"cell": Cell(**content["cell"])}
        if content["disks"] is not None:
            parts["disks"] = {name: DiskClock(**clock) for name, clock in content["disks"].items()}
        for name, kind in (("times", Times), ("warm_up", WarmUp)):
            if content[name] is not None:
                parts[name] = kind(**content[name])
        return CellResult(**{**content, **parts})


def cells_of(spec: OperatorsSpec) -> list[Cell]:
    """Return the cells of a run; algorithms take turns at each point of the grid."""
    cells = [
        Cell(rows, skew, share, name, layout)
        for rows in spec.rows
        for skew in spec.skews
        for share in spec.memory_shares
        for name, layout in _variants(spec)
    ]
    return list(dict.fromkeys([*cells, *_smaller_budgets(spec)]))


def _variants(spec: OperatorsSpec) -> Iterator[tuple[str, Layout]]:
    # The baseline of most ratios first.
    for name in sorted(spec.algorithms, key=lambda name: (name != "meshjoin", name)):
        # A scan is the same on both layouts; SSBJ has a disk phase of its own for each.
        layouts = algorithm(name).layouts
        for layout in layouts if name == "ssbj" else layouts[:1]:
            yield name, cast(Layout, layout)


def _smaller_budgets(spec: OperatorsSpec) -> Iterator[Cell]:
    """Yield the cells in which SSBJ is given less and less of MESHJOIN's budget."""
    if TARGET_SKEW in spec.skews and TARGET_MEMORY_SHARE in spec.memory_shares:
        for rows in spec.rows:
            for name, layout in _variants(spec):
                if name == "ssbj" and layout == "heap":
                    for part in _SEARCHED_PARTS:
                        yield Cell(rows, TARGET_SKEW, TARGET_MEMORY_SHARE * part, name, layout)
