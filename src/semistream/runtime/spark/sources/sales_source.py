"""``semistream-sales``: the papers' bursty, skewed stream as a Spark data source, for streams and for batches.

Rows are numbered, and an offset is how many rows have been read. What a row holds follows from the seed and its number
alone, so that a replayed micro-batch has the same rows, whatever partitions and batches are. The clock is asked only
where the end of a new micro-batch is decided, in the driver; Spark records the decision in its offset log.

======================  ==========================================================================================
option                  meaning (default)
======================  ==========================================================================================
``rate``                rows per second, on average (1000)
``pacing``              ``clock``: rows appear as time passes; ``none``: as fast as they are read (``clock``)
``burstiness``          0 is a constant rate, 0.6 the 80/20 rule; below 1 (0)
``burstPeriod``         the longest swing of a bursty rate, in seconds; over each period the mean is exact (60)
``rowsPerBatch``        the most rows of a micro-batch (100000 without pacing, otherwise all that have appeared)
``rows``                how many rows there are; needed in a batch query (endless in a stream)
``skew``                exponent of the keys' Zipf distribution; 0 is uniform (1)
``keyDomain``           keys are 0 to ``keyDomain - 1`` (1000000)
``missingShare``        the share of rows whose key is ``keyDomain`` or above, without a master row (0)
``startTime``           when the first sale happens; ``time`` goes on from there at ``rate`` (2026-01-01T00:00:00Z)
``seed``                the same seed gives the same rows (0)
``partitions``          tasks that make the rows of a batch or micro-batch (2)
======================  ==========================================================================================

A stream with pacing stands still while its query is down, and goes on where it was. ``Trigger.AvailableNow`` reads up
to ``rows``, without waiting for the clock.
"""

import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import IntegerType, LongType, StructType, TimestampType

from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.sources.row_ranges import RowRange, check_schema, row_ranges
from semistream.runtime.spark.sources.sales_options import SALES_SOURCE, SalesOptions
from semistream.workloads import Sales

__all__ = ["SalesSource"]

_COLUMNS = (
    StructType()
    .add("key", LongType())
    .add("sale", LongType())
    .add("quantity", IntegerType())
    .add("time", TimestampType())
)
_ARROW_BATCH_ROWS = 16_384


class SalesSource(DataSource):
    """The data source; see the options in the text of this module."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return SALES_SOURCE

    def schema(self) -> StructType:
        """Return the columns, after a look at all options: a wrong one is told when the source is loaded."""
        SalesOptions.of(self.options)
        return _COLUMNS

    def reader(self, schema: StructType) -> "SalesReader":
        """Return what reads a batch."""
        check_schema(SALES_SOURCE, schema, _COLUMNS)
        return SalesReader(SalesOptions.of(self.options))

    def streamReader(self, schema: StructType) -> "SalesStreamReader":  # noqa: N802
        """Return what reads a stream."""
        check_schema(SALES_SOURCE, schema, _COLUMNS)
        return SalesStreamReader(SalesOptions.of(self.options))


class SalesReader(DataSourceReader):
    """Reads the first ``rows`` rows."""

    def __init__(self, options: SalesOptions) -> None:
        if options.rows is None:
            raise InvalidArgument(f"{SALES_SOURCE} needs the option rows in a batch query: say how many rows to read")
        self._options = options
        self._rows = options.rows

    def partitions(self) -> list[RowRange]:
        """Return the ranges that tasks read."""
        return row_ranges(0, self._rows, self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the rows of a range."""
        assert isinstance(partition, RowRange)
        return _batches(self._options.sales, partition)


class SalesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Decides where micro-batches end, and reads them."""

    def __init__(self, options: SalesOptions) -> None:
        self._options = options
        self._stands_at_end = False
        self._clock_began_s: float | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """Return the offset of a stream of which nothing has been read."""
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the most that a micro-batch reads."""
        most_rows = self._options.rows_per_batch
        return ReadAllAvailable() if most_rows is None else ReadMaxRows(most_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Take all rows as available; there has to be a last one."""
        if self._options.rows is None:
            raise _never_ends()
        self._stands_at_end = True

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        """Return where the next micro-batch ends."""
        begin = start["rows"]
        ends = [self._available(begin), begin + limit.max_rows if isinstance(limit, ReadMaxRows) else None]
        known = [end for end in ends if end is not None]
        if not known:
            raise _never_ends()
        return {"rows": max(begin, min(known))}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        """Return how many rows are there to be read, for the query's progress."""
        available = None if self._options.paced and self._clock_began_s is None else self._available(0)
        return None if available is None else {"rows": available}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[RowRange]:
        """Return the ranges that the tasks of a micro-batch read."""
        return row_ranges(start["rows"], end["rows"], self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the rows of a range."""
        assert isinstance(partition, RowRange)
        return _batches(self._options.sales, partition)

    def _available(self, begin: int) -> int | None:
        """Return how many rows are there, None if there is no end to them."""
        rows = self._options.rows
        if self._stands_at_end or not self._options.paced:
            return rows
        arrivals = self._options.sales.arrivals
        now_s = time.monotonic()
        if self._clock_began_s is None:
            self._clock_began_s = now_s - float(arrivals.times_s(begin, 1)[0])
        arrived = arrivals.arrived(max(0.0, now_s - self._clock_began_s))
        return arrived if rows is None else min(arrived, rows)


def _never_ends() -> InvalidArgument:
    return InvalidArgument(f"{SALES_SOURCE} never ends: give the option rows, or use another trigger")


def _batches(sales: Sales, rows: RowRange) -> Iterator[pa.RecordBatch]:
    for start in range(rows.start, rows.stop, _ARROW_BATCH_ROWS):
        yield sales.part(start, min(_ARROW_BATCH_ROWS, rows.stop - start))
