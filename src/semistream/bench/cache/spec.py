"""What the benchmark of the cache policies measures, and how large."""

from dataclasses import dataclass

import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.workloads import locality_stream, polluted_stream, stream

__all__ = ["POLICIES", "WORKLOADS", "CacheSpec"]

POLICIES = ("aging", "threshold", "inequality", "tinylfu")
WORKLOADS = ("zipf 0.5", "zipf 0.8", "zipf 1.0", "zipf 1.2", "locality", "polluted")


@dataclass(frozen=True, kw_only=True)
class CacheSpec:
    """One run.

    Attributes
    ----------
    rows
        Rows of 120 bytes in the master table, each with a key of its own.
    memory_share
        The operator's budget as a share of the table's bytes.
    cache_share
        The operators' option of that name.
    warm_up_tuples, measured_tuples
        Stream tuples before hits are counted, and while they are.
    algorithms
        The operators whose front stage is measured; those that do not exist are left out.
    intervals
        Of the locality stream, over warm-up and measured part together.
    scan_share
        Of the polluted stream, whose other tuples are distributed with Zipf exponent 1.

    Examples
    --------
    >>> CacheSpec(rows=1000, warm_up_tuples=0, measured_tuples=50).stream("zipf 1.2").read_all().num_rows
    50
    """

    rows: int = 2_000_000
    page_bytes: int = 64 << 10
    seed: int = 0
    memory_share: float = 0.05
    cache_share: float = 0.15
    warm_up_tuples: int = 3_000_000
    measured_tuples: int = 3_000_000
    algorithms: tuple[str, ...] = ("chybridjoin", "cmeshjoin")
    policies: tuple[str, ...] = POLICIES
    workloads: tuple[str, ...] = WORKLOADS
    intervals: int = 10
    scan_share: float = 0.25

    def __post_init__(self) -> None:
        for workload in self.workloads:
            if workload not in WORKLOADS:
                raise InvalidArgument(f"workload {workload!r} is unknown: use one of {', '.join(WORKLOADS)}")
        for name, least in (("rows", 1000), ("measured_tuples", 1), ("warm_up_tuples", 0), ("intervals", 1)):
            if getattr(self, name) < least:
                raise InvalidArgument(f"{name}={getattr(self, name)} must be at least {least}")
        if not 0 < self.memory_share <= 1:
            raise InvalidArgument(f"memory_share={self.memory_share} must be above 0 and at most 1")

    @property
    def num_tuples(self) -> int:
        return self.warm_up_tuples + self.measured_tuples

    @property
    def interval_tuples(self) -> int:
        """Tuples in an interval of the locality stream."""
        return -(-self.num_tuples // self.intervals)

    def stream(self, workload: str) -> pa.RecordBatchReader:
        """Return the stream of a workload, warm-up included."""
        if workload == "locality":
            return locality_stream(self.num_tuples, key_domain=self.rows, intervals=self.intervals, seed=self.seed)
        if workload == "polluted":
            return polluted_stream(self.num_tuples, key_domain=self.rows, scan_share=self.scan_share, seed=self.seed)
        exponent = float(workload.removeprefix("zipf "))
        return stream(self.num_tuples, key_domain=self.rows, zipf_exponent=exponent, seed=self.seed)
