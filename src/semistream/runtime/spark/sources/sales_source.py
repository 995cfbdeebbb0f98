"""``semistream-sales``: the papers' bursty, skewed stream as a Spark data source, for streams and for batches.

Rows are numbered, and an offset is the number of rows read. A row follows from the seed and its number alone, so a
replayed micro-batch has the same rows, with any partitions and batches. Only the driver asks the clock, to end a new
micro-batch; Spark records the decision in its offset log.

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

A paced stream stands still while its query is down. ``Trigger.AvailableNow`` reads up to ``rows`` without waiting for
the clock.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from semistream.core.errors import InvalidArgument
from semistream.runtime.spark.sources.generated_source import (
    ARROW_BATCH_ROWS,
    GeneratedSource,
    RowRange,
    SourceOptions,
    row_ranges,
)
from semistream.workloads import SALES_SCHEMA, Bursts, Sales

__all__ = ["SalesOptions", "SalesSource", "SalesStreamReader"]

_SOURCE = "semistream-sales"
_NAMES = (
    "rate, pacing, burstiness, burstPeriod, rowsPerBatch, rows, skew, keyDomain, missingShare, startTime, seed, "
    "partitions"
)
_UNPACED_ROWS_PER_BATCH = 100_000
_LARGEST_DOMAIN = 2**52


@dataclass(frozen=True, kw_only=True)
class SalesOptions:
    """The checked options."""

    sales: Sales
    paced: bool
    rows: int | None
    rows_per_batch: int | None
    partitions: int

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "SalesOptions":
        options = SourceOptions(_SOURCE, given, _NAMES)
        seed = options.count("seed", 0, least=0)
        missing_share = options.number("missingShare", 0.0)
        if missing_share > 1:
            raise options.wrong("missingShare", "must be at least 0 and at most 1")
        sales = Sales(
            _arrivals(options, seed),
            key_domain=options.count("keyDomain", 1_000_000, most=_LARGEST_DOMAIN),
            zipf_exponent=options.number("skew", 1.0),
            missing_share=missing_share,
            start_us=options.time_us("startTime", "2026-01-01T00:00:00Z"),
            seed=seed,
        )
        paced = options.choice("pacing", ("clock", "none")) == "clock"
        rows_per_batch = options.optional_count("rowsPerBatch")
        if rows_per_batch is None and not paced:
            rows_per_batch = _UNPACED_ROWS_PER_BATCH
        return cls(
            sales=sales,
            paced=paced,
            rows=options.optional_count("rows"),
            rows_per_batch=rows_per_batch,
            partitions=options.count("partitions", 2, most=100_000),
        )

    def batches(self, part: range) -> Iterator[pa.RecordBatch]:
        for start in part[::ARROW_BATCH_ROWS]:
            yield self.sales.part(start, min(ARROW_BATCH_ROWS, part.stop - start))


def _arrivals(options: SourceOptions, seed: int) -> Bursts:
    rate = options.number("rate", 1000.0)
    if not 1e-6 <= rate <= 1e12:
        raise options.wrong("rate", "must be at least 1e-6 and at most 1e12 rows per second")
    burstiness = options.number("burstiness", 0.0)
    if burstiness >= 1:
        raise options.wrong("burstiness", "must be at least 0 and below 1; 0.6 is the 80/20 rule")
    period_s = options.number("burstPeriod", max(60.0, 2 / rate))
    if not 1 <= rate * period_s <= 2**53:
        raise options.wrong(
            "burstPeriod", f"gives {rate * period_s:g} rows a period at rate {rate:g}: there must be 1 to 2**53"
        )
    return Bursts(rate, burstiness=burstiness, period_s=period_s, seed=seed)


class SalesSource(GeneratedSource):
    """The data source; its options are listed above."""

    format = _SOURCE
    arrow_schema = SALES_SCHEMA

    def checked_options(self) -> SalesOptions:
        return SalesOptions.of(self.options)

    def streamReader(self, schema: StructType) -> "SalesStreamReader":  # noqa: N802
        self.require_own(schema)
        return SalesStreamReader(self.checked_options())


class SalesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Decides where micro-batches end, and reads them."""

    def __init__(self, options: SalesOptions) -> None:
        self._options = options
        self._stands_at_end = False
        self._clock_began_s: float | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most_rows = self._options.rows_per_batch
        return ReadAllAvailable() if most_rows is None else ReadMaxRows(most_rows)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        if self._options.rows is None:
            raise _never_ends()
        self._stands_at_end = True

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        begin = start["rows"]
        ends = [self._available(begin), begin + limit.max_rows if isinstance(limit, ReadMaxRows) else None]
        known = [end for end in ends if end is not None]
        if not known:
            raise _never_ends()
        return {"rows": max(begin, min(known))}

    def reportLatestOffset(self) -> dict[str, int] | None:  # noqa: N802
        available = None if self._options.paced and self._clock_began_s is None else self._available(0)
        return None if available is None else {"rows": available}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[RowRange]:
        return row_ranges(start["rows"], end["rows"], self._options.partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, RowRange)
        return self._options.batches(range(partition.start, partition.stop))

    def _available(self, begin: int) -> int | None:
        """Return how many rows are available; None if they never end."""
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
    return InvalidArgument(f"{_SOURCE} never ends: give the option rows, or use another trigger")
