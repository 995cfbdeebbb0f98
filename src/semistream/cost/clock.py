"""Clocks: how long the counted work of a loop takes, on a disk by its profile or on a calibrated machine."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Protocol

from semistream.core.errors import NotCalibrated
from semistream.core.metrics import Metrics
from semistream.cost.loop import Loop

__all__ = [
    "COUNT_OF_FACTOR",
    "HDD",
    "MACHINE",
    "PROFILES",
    "AlgorithmFactors",
    "Clock",
    "CostFactors",
    "DiskProfile",
    "by_partition",
]


class Clock(Protocol):
    """Prices a loop: a `DiskProfile` by its reads, `CostFactors` by what was calibrated for each algorithm."""

    @property
    def name(self) -> str: ...

    def loop_s(self, algorithm: str, loop: Loop) -> float:
        """Return the papers' c_loop: the seconds of one iteration."""
        ...


@dataclass(frozen=True)
class DiskProfile:
    """A disk that seeks to any place in ``seek_s``, then transfers; nothing else costs time on it."""

    name: str
    seek_s: float
    bytes_per_s: float

    def io_s(self, seeks: float, bytes_read: float) -> float:
        return seeks * self.seek_s + bytes_read / self.bytes_per_s

    def work_s(self, before: Metrics, after: Metrics) -> float:
        """Return the seconds of the reads between two states of the counters."""
        return self.io_s(after.seeks - before.seeks, after.bytes_read - before.bytes_read)

    def loop_s(self, algorithm: str, loop: Loop) -> float:
        return self.io_s(loop.seeks, loop.bytes_read)


HDD = DiskProfile("7200 rpm disk", seek_s=0.0085 + 0.00417, bytes_per_s=150e6)
"""An average seek of 8.5 ms and half a rotation of 4.17 ms; the clock of the targets."""

PROFILES = (HDD, DiskProfile("SATA SSD", seek_s=0.0001, bytes_per_s=500e6))

MACHINE = "this machine"

COUNT_OF_FACTOR = {
    "read_s": "reads",
    "seek_s": "seeks",
    "page_s": "pages",
    "search_s": "searches",
    "row_s": "master_rows",
    "tuple_s": "tuples",
    "disk_tuple_s": "disk_tuples",
    "answer_s": "answers",
    "result_s": "results",
}
"""The count of a `Loop` that each factor is a price of."""


def by_partition(algorithm: str) -> str:
    """Return the name of the factors of an algorithm that also scans, for tables of which it reads partitions."""
    return f"{algorithm} by partition"


@dataclass(frozen=True, kw_only=True)
class AlgorithmFactors:
    """Seconds per unit of one algorithm: its side of S3 Eq. 2, S1 Eq. 3 and S0 Eq. 2.

    The cost of a loop is the sum of its counts, each times its factor. Reading overlaps with work, as the next pages
    are fetched meanwhile: the factors of reading are the part that does not.
    """

    loop_s: float = 0.0  # of an iteration whatever it does; the papers neglect it: their loops are in C or Java
    read_s: float = 0.0  # c_I/O: of a read,
    seek_s: float = 0.0  # of one that does not begin where the one before ended,
    page_s: float = 0.0  # and of a page of it, decoded
    search_s: float = 0.0  # of a search of pages together, however many
    # c_H, and c_B where there is a cache: of a master row that is read and compared. Rows of one table and their bytes
    # cannot be told apart.
    row_s: float = 0.0
    tuple_s: float = 0.0  # c_S + c_H: of a tuple that is read and looked for in the cache, if there is one
    disk_tuple_s: float = 0.0  # c_A + c_E, beyond that: a tuple from the cache never costs more than another
    answer_s: float = 0.0  # of a loop in which the cache answers any tuple: the stream is read until enough tuples miss
    result_s: float = 0.0  # c_O: of a row that leaves

    def seconds(self, loop: Loop) -> float:
        """Return c_loop of one iteration."""
        prices = (getattr(self, factor) * getattr(loop, count) for factor, count in COUNT_OF_FACTOR.items())
        return float(sum(prices, start=self.loop_s))

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


@dataclass(frozen=True)
class CostFactors:
    """A `Clock`: the factors of every algorithm that was calibrated, by its name or by `by_partition` of it.

    They hold for tables with rows similar to those of the table that they were ``measured_on``.
    """

    by_algorithm: Mapping[str, AlgorithmFactors]
    name: str = MACHINE
    measured_on: str = ""

    def loop_s(self, algorithm: str, loop: Loop) -> float:
        if algorithm not in self.by_algorithm:
            raise NotCalibrated(
                f"algorithm {algorithm!r} has no cost factors, only {', '.join(sorted(self.by_algorithm))} have: "
                "calibrate with a table on which it works: semistream advise TABLE --calibrate"
            )
        return self.by_algorithm[algorithm].seconds(loop)
