"""Joins with wide rows, texts, a key of several columns, and many rows a key."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from semistream.bench.measurements.spark.feed import StreamPart
from semistream.workloads import Bursts, Sales, Workload, master_table, tpch

__all__ = ["WIDE_CASES", "WideCase", "wide_case"]

_ROWS_PER_KEY = 10
_PAYLOADS_OF_1_KB = 11
_SHOPS = 1000
_SAMPLE_ROWS = 1000
_TPCH_CUSTOMERS = 150_000  # in a unit of its scale factor
_STREAM_COLUMNS = ["key", "sale", "quantity"]

WIDE_CASES = ("TPC-H orders with customer", "rows of 1 KB", "key of two texts", "10 rows a key")
"""Their names."""

_Shape = Callable[[pa.RecordBatch], pa.RecordBatch]


@dataclass(frozen=True)
class WideCase:
    """A master table, and the stream that asks for its keys: each of its rows meets ``rows_out`` master rows."""

    key: tuple[str, ...]
    master: Callable[[], pa.RecordBatchReader]
    part: StreamPart
    rows_out: int = 1

    def sample(self) -> pa.RecordBatch:
        """Return some rows of the master table without its key, as Spark takes them."""
        rows = self.master().read_next_batch().slice(0, _SAMPLE_ROWS)
        names = [name for name in rows.schema.names if name not in self.key]
        columns = [rows.column(name) for name in names]
        plain = [column.cast(pa.binary()) if pt.is_fixed_size_binary(column.type) else column for column in columns]
        return pa.RecordBatch.from_arrays(plain, names)


def wide_case(name: str, table_bytes: int, skew: float, seed: int, data_dir: Path) -> WideCase:
    """Return the case with this name, with a master table of about ``table_bytes``."""
    if name == WIDE_CASES[0]:
        workload = tpch(table_bytes / 223 / _TPCH_CUSTOMERS, data_dir)
        return WideCase((workload.key,), workload.master, _InOrder(workload, seed).part)
    if name == WIDE_CASES[1]:
        return _products(table_bytes // 1000, _with_1_kb, skew, seed)
    if name == WIDE_CASES[2]:
        return _products(table_bytes // 150, _with_text_key, skew, seed, key=("shop", "article"))
    return _products(table_bytes // 120, lambda batch: batch, skew, seed, rows_per_key=_ROWS_PER_KEY)


def _products(
    rows: int, shape: _Shape, skew: float, seed: int, key: tuple[str, ...] = ("key",), rows_per_key: int = 1
) -> WideCase:
    """Return a join of products, and sales where they have the key of products."""
    sales = Sales(Bursts(1000), key_domain=rows // rows_per_key, zipf_exponent=skew, seed=seed)

    def master() -> pa.RecordBatchReader:
        plain = master_table(rows // rows_per_key * rows_per_key, rows_per_key=rows_per_key, seed=seed)
        first = shape(plain.read_next_batch())
        return pa.RecordBatchReader.from_batches(first.schema, _each(first, plain, shape))

    def part(start: int, count: int) -> pa.RecordBatch:
        batch = sales.part(start, count).select(_STREAM_COLUMNS)
        return _with_text_key(batch) if shape is _with_text_key else batch

    return WideCase(key, master, part, rows_per_key)


def _each(first: pa.RecordBatch, rest: pa.RecordBatchReader, shape: _Shape) -> Iterator[pa.RecordBatch]:
    yield first
    yield from map(shape, rest)


def _with_1_kb(batch: pa.RecordBatch) -> pa.RecordBatch:
    place = batch.schema.get_field_index("payload")
    payload = batch.column(place).cast(pa.binary())
    wide = pc.binary_join_element_wise(*[payload] * _PAYLOADS_OF_1_KB, b"")
    return pa.RecordBatch.from_arrays([*batch.columns[:place], wide], batch.schema.names)


def _with_text_key(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with two texts in place of the key, which is the first column."""
    key = batch.column(0)
    number = pc.subtract(key, pc.multiply(pc.divide(key, _SHOPS), _SHOPS))
    shop = pc.binary_join_element_wise("shop", pc.utf8_lpad(number.cast(pa.string()), 6, "0"), "-")
    article = pc.binary_join_element_wise("article", key.cast(pa.string()), "-")
    return pa.RecordBatch.from_arrays([shop, article, *batch.columns[1:]], ["shop", "article", *batch.schema.names[1:]])


class _InOrder:
    """Parts of a stream that can only be read from its beginning; each part is best the next one."""

    def __init__(self, workload: Workload, seed: int) -> None:
        self._begin: Callable[[], Iterator[pa.RecordBatch]] = lambda: workload.stream(seed)
        self._rows = self._begin()
        self._place = 0
        self._rest: pa.RecordBatch | None = None

    def part(self, start: int, count: int) -> pa.RecordBatch:
        if start < self._place:
            self._rows, self._place, self._rest = self._begin(), 0, None
        found: list[pa.RecordBatch] = []
        while self._place < start + count:
            batch = next(self._rows) if self._rest is None else self._rest
            taken = batch.slice(0, (start if self._place < start else start + count) - self._place)
            if self._place >= start:
                found.append(taken)
            self._place += taken.num_rows
            self._rest = batch.slice(taken.num_rows) if taken.num_rows < batch.num_rows else None
        return pa.Table.from_batches(found).combine_chunks().to_batches()[0]
