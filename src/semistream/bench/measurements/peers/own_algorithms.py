"""What the default takes beside our other algorithms on the same table, micro-batch by micro-batch, in one process."""

import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

import semistream as ss
from semistream.bench.framework.measurement import MACHINE, Context, Point
from semistream.bench.measurements.page_cache import read_into_page_cache
from semistream.bench.measurements.peers.cold_reads import answer
from semistream.bench.measurements.peers.wide_cases import WIDE_CASES
from semistream.bench.measurements.peers.wide_rows import wide_table
from semistream.bench.measurements.spark.feed import StreamPart
from semistream.bench.measurements.spark.session import SparkSettings
from semistream.bench.measurements.spark.tables import files_below
from semistream.bench.measurements.spark.warm_tables import warm_tables
from semistream.storage import MasterTable
from semistream.workloads import Bursts, Sales

__all__ = ["KEYS", "OwnAlgorithm"]

KEYS = ("key of one number", "key of two texts")
_STREAM_COLUMNS = ["key", "sale", "quantity"]


class _Asked(NamedTuple):
    table: MasterTable
    on: list[str]
    part: StreamPart


@dataclass(frozen=True, kw_only=True)
class OwnAlgorithm:
    """Times of micro-batches of one algorithm, each answered whole before the next one comes."""

    series: str  # an algorithm
    key: str
    rows: int  # of the table with a key of one number
    table_bytes: int  # of the other
    batch_rows: int
    first_row: int
    settings: SparkSettings

    @property
    def group(self) -> str:
        return f"our algorithms, {self.key}, Zipf {self.settings.skew:g}"

    @property
    def name(self) -> str:
        return f"{self.group}, batches of {self.batch_rows:,}: {self.series}"

    @property
    def weight(self) -> float:
        return 5.0 + 8e-6 * self.batch_rows

    def run(self, context: Context) -> list[Point]:
        settings = self.settings
        asked = self._asked(context)
        read_into_page_cache(files_below(Path(asked.table.path)))
        context.report(self.name)
        memory_bytes = int(asked.table.num_bytes * settings.memory_share)
        schema = asked.part(self.first_row, 1).schema
        batch_s: list[float] = []
        with ss.operator(self.series, asked.table, schema, on=asked.on, memory=memory_bytes) as op:
            for number in range(settings.warm_up_batches + settings.measured_batches):
                batch = asked.part(self.first_row + number * self.batch_rows, self.batch_rows)
                began_s = time.perf_counter()
                answer(op, batch)
                batch_s.append(time.perf_counter() - began_s)
                if number > 0 and sum(batch_s) > settings.slow_batch_s * settings.measured_batches:
                    break
            counted = {"hit_ratio": op.metrics.hit_ratio, "pages_read": op.metrics.pages_read}
        measured = batch_s[settings.warm_up_batches :] or batch_s[1:]
        details = {"batch_s": batch_s, **counted}
        return [Point(self.series, self.batch_rows, {MACHINE: statistics.median(measured)}, details, self.group)]

    def _asked(self, context: Context) -> _Asked:
        settings, tables = self.settings, warm_tables(context, self.settings)
        if self.key == KEYS[0]:
            sales = Sales(Bursts(1000), key_domain=self.rows, zipf_exponent=settings.skew, seed=tables.seed)

            def part(start: int, count: int) -> pa.RecordBatch:
                return sales.part(start, count).select(_STREAM_COLUMNS)

            return _Asked(tables.forms(self.rows, context.report).ours, ["key"], part)
        case, table = wide_table(WIDE_CASES[2], self.table_bytes, settings, tables, context)
        return _Asked(table, list(case.key), case.part)
