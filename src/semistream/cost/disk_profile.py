"""Disks on which counted work is replayed: what it would have taken there, by seeks and bytes alone."""

from dataclasses import dataclass

from semistream.core.metrics import Metrics
from semistream.cost.loop import Loop

__all__ = ["HDD", "PROFILES", "DiskProfile"]


@dataclass(frozen=True)
class DiskProfile:
    """A disk that seeks, then transfers; nothing else costs time on it.

    Attributes
    ----------
    seek_s
        From one place to any other, until the first byte comes.
    bytes_per_s
        Of sequential reading.

    Examples
    --------
    >>> round(HDD.io_s(seeks=100, bytes_read=150_000_000), 3)
    2.267
    """

    name: str
    seek_s: float
    bytes_per_s: float

    def io_s(self, seeks: float, bytes_read: float) -> float:
        """Return the seconds that these reads take."""
        return seeks * self.seek_s + bytes_read / self.bytes_per_s

    def work_s(self, before: Metrics, after: Metrics) -> float:
        """Return the seconds of what was read between two states of the counters."""
        return self.io_s(after.seeks - before.seeks, after.bytes_read - before.bytes_read)

    def loop_s(self, algorithm: str, loop: Loop) -> float:
        """Return the seconds that the reads of a loop take, whatever the algorithm."""
        return self.io_s(loop.seeks, loop.bytes_read)


HDD = DiskProfile("7200 rpm disk", seek_s=0.0085 + 0.00417, bytes_per_s=150e6)
"""An average seek of 8.5 ms and half a rotation of 4.17 ms; the clock of the targets."""

PROFILES = (HDD, DiskProfile("SATA SSD", seek_s=0.0001, bytes_per_s=500e6))
