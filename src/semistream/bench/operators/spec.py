"""What the benchmark of the operators measures, and how large."""

from dataclasses import asdict, dataclass, field
from typing import Any

from semistream.core.errors import InvalidArgument
from semistream.cost.disk_profile import PROFILES
from semistream.operators import algorithm, algorithm_names

__all__ = ["QUICK", "OperatorsSpec"]

_AXES = ("rows", "skews", "memory_shares", "algorithms")


@dataclass(frozen=True, kw_only=True)
class OperatorsSpec:
    """One run; the defaults are those that the targets speak of.

    Warm-up ends when the operator is steady, or after a fixed amount of counted work, so that a cell shows the same on
    a busy machine as on a quiet one. The amounts are a compromise: about an hour is reckoned, not measured, for the
    154 cells on two quiet cores. CMESHJOIN's share changed by less than 0.002 from scan to scan after 6, and SSBJ's
    states go round five times in 15. CINLJ sees more tuples than its cache has room for, but on 20M rows at skew 1 its
    share still rises by 0.006 in the last window: such cells say that they are not steady. Seconds are an emergency
    brake, which marks a cell in the same way. What is measured afterwards is counted, and needs few scans to be exact.
    Reads of partitions swing by some per cent around their mean for two scans, as the first tuples came all at once:
    at 1% from window to window that is over.

    Attributes
    ----------
    rows
        Rows of 120 bytes in the master tables.
    skews
        Zipf exponents of the stream.
    memory_shares
        Budgets as shares of the table's bytes.
    algorithms
        Which to run, each on one layout and SSBJ on both; all that are registered by default.
    measured_rows
        How many rows are scanned in the measured part, in whole scans and at least one. Operators that read one
        partition at a time read half as much.
    lookup_tuples
        Tuples in the measured part of operators that look every tuple up, several thousand a second.
    lookup_backlog_tuples
        How many tuples such an operator is kept busy with, a step of CINLJ; its stream buffer would take longer to work
        off.
    share_tolerance, io_tolerance
        The operator is warm when, from one window of work to the next, its share through the cache changes by less than
        the one, and its bytes read per tuple by less than the other, as a part of them. A window is a scan; three for
        SSBJ, which moves keys in every third; half a scan's worth of partitions; or twice as many look-ups as in the
        window before, beginning with half of ``lookup_tuples``: a cache that fills ever more slowly would seem to stand
        still in windows of equal length.
    most_warm_up_scans
        How often R's bytes are read in warm-up at most; half as often by operators that read one partition at a time.
    most_warm_up_tuples
        How many tuples operators that look every tuple up get in warm-up at most.
    least_measured_s
        The measured part is repeated until all took so long; the one of median speed counts.
    most_warm_up_s, most_measured_s
        The emergency brake.
    arrival_share
        Processing and waiting time are those at this share of the service rate.

    Examples
    --------
    >>> OperatorsSpec(rows=(2_000_000,)).scans(2_000_000)
    3
    """

    rows: tuple[int, ...] = (2_000_000, 20_000_000)
    skews: tuple[float, ...] = (0.0, 0.5, 1.0)
    memory_shares: tuple[float, ...] = (0.01, 0.05, 0.10)
    algorithms: tuple[str, ...] = field(default_factory=lambda: tuple(algorithm_names()))
    page_bytes: int = 64 << 10
    seed: int = 0
    measured_rows: int = 6_000_000
    lookup_tuples: int = 10_000
    lookup_backlog_tuples: int = 4096
    share_tolerance: float = 0.005
    io_tolerance: float = 0.01
    most_warm_up_scans: int = 15
    most_warm_up_tuples: int = 635_000
    least_measured_s: float = 0.0
    most_warm_up_s: float = 600.0
    most_measured_s: float = 120.0
    arrival_share: float = 0.8

    def __post_init__(self) -> None:
        for name in self.algorithms:
            algorithm(name)  # an unknown one raises, naming those that there are
        for name in _AXES:
            if not getattr(self, name):
                raise InvalidArgument(f"{name} is empty: give at least one value")
        for name, value, least in (
            ("rows", min(self.rows), 1000),
            ("page_bytes", self.page_bytes, 1024),
            ("lookup_tuples", self.lookup_tuples, 2),
            ("lookup_backlog_tuples", self.lookup_backlog_tuples, 1),
            ("most_warm_up_scans", self.most_warm_up_scans, 1),
            ("most_warm_up_tuples", self.most_warm_up_tuples, 1),
        ):
            if value < least:
                raise InvalidArgument(f"{name}={value} must be at least {least}")
        if min(self.skews) < 0:
            raise InvalidArgument(f"skews={self.skews} must be 0 or more")
        if not all(0 < share <= 1 for share in self.memory_shares):
            raise InvalidArgument(f"memory_shares={self.memory_shares} must be above 0 and at most 1")
        if not 0 < self.arrival_share < 1:
            raise InvalidArgument(f"arrival_share={self.arrival_share} must be between 0 and 1")

    def scans(self, rows: int) -> int:
        """Return how many scans of a table with ``rows`` rows are measured."""
        return max(1, round(self.measured_rows / rows))

    def is_target_size(self, rows: int) -> bool:
        """Whether figures on a table of this size are those that the targets speak of."""
        return rows in OperatorsSpec.rows and self.conditions() == OperatorsSpec(seed=self.seed).conditions()

    def conditions(self) -> dict[str, Any]:
        """Return all but the axes of the grid: cells can stand side by side when they share it."""
        return {name: value for name, value in asdict(self).items() if name not in _AXES}

    def as_dict(self) -> dict[str, Any]:
        """Return the spec as it stands in the result file, with the constants of the disks."""
        return {**asdict(self), "disks": [asdict(profile) for profile in PROFILES]}


QUICK = OperatorsSpec(
    rows=(200_000,),
    skews=(0.0, 1.0),
    memory_shares=(0.05,),
    page_bytes=16 << 10,
    measured_rows=200_000,
    lookup_tuples=1000,
    lookup_backlog_tuples=2048,
    most_warm_up_scans=2,
    most_warm_up_tuples=1500,
)
"""A look at the mechanics in under a minute, without verdicts."""
