"""What was read from storage, over all the readers that an operator has had: one per version of its table."""

from typing import Protocol

from semistream.core.metrics import Metrics
from semistream.storage import ReadPosition

__all__ = ["PageReads", "ReadCounts"]


class _CountsReads(Protocol):
    @property
    def pages_read(self) -> int: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def reads(self) -> int: ...
    @property
    def seeks(self) -> int: ...


class PageReads(ReadPosition):
    """Counts the pages and bytes that one reader reads, and how."""

    pages_read = bytes_read = 0


class ReadCounts:
    """Adds what one reader counts to what the readers before it did."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._before = metrics.pages_read, metrics.bytes_read, metrics.reads, metrics.seeks

    def update(self, reader: _CountsReads) -> None:
        pages, nbytes, reads, seeks = self._before
        self._metrics.pages_read = pages + reader.pages_read
        self._metrics.bytes_read = nbytes + reader.bytes_read
        self._metrics.reads = reads + reader.reads
        self._metrics.seeks = seeks + reader.seeks
