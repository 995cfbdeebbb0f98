"""A join to try out: its stream and its operator."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.semantics import JoinSpec
from semistream.cost.calibration.feeder import Feeder
from semistream.cost.calibration.sampled_pages import rows_from_all_over
from semistream.cost.calibration.stopwatch import Aside, Stopwatch
from semistream.cost.key_distribution import KeyDistribution
from semistream.operators import algorithm
from semistream.operators.driver import StepOperator
from semistream.storage import MasterTable, drop_pages

__all__ = ["TrialJoin", "TrialStream", "absent_keys", "keys_of", "trial_operator", "trial_schema"]

_MOST_PAGES_READ = 4096
_BLOCK_TUPLES = 1 << 16
_BATCH_TUPLES = 1 << 12
_TEXT_BYTES = 12


def keys_of(table: MasterTable, rng: np.random.Generator) -> pa.RecordBatch:
    """Return keys from all over the table in random order: those of all rows, unless it is large."""
    most_bytes = _MOST_PAGES_READ * table.page_bytes
    keys = rows_from_all_over(table, most_bytes, rng, list(table.key)).combine_chunks()
    valid = np.ones(keys.num_rows, dtype=np.bool_)
    for column in keys.columns:
        valid &= pc.is_valid(column).to_numpy()
    order = rng.permutation(np.flatnonzero(valid))
    if not order.size:
        raise InvalidArgument(f"no row of {table.path} has a key: all are NULL")
    return keys.take(pa.array(order)).combine_chunks().to_batches()[0]


def absent_keys(keys: pa.RecordBatch) -> pa.RecordBatch | None:
    """Return keys most of which the table lacks, or None where the type of the last column gives none."""
    last = keys.column(keys.num_columns - 1)
    kind = last.type
    if pa.types.is_integer(kind) and kind.bit_width >= 16:
        values = last.to_numpy(zero_copy_only=False)
        spread = int(values.max()) - int(values.min()) + 1
        if spread + int(values.max()) > np.iinfo(values.dtype).max:
            return None
        changed = pa.array(values + values.dtype.type(spread), type=kind)
    elif pa.types.is_float64(kind) or pa.types.is_float32(kind):
        changed = pc.add(pc.abs(last), pa.scalar(0.123, kind))
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        changed = pc.binary_join_element_wise(last, pa.scalar("absent", kind), pa.scalar("-", kind))
    else:
        return None
    return pa.RecordBatch.from_arrays([*keys.columns[:-1], changed], schema=keys.schema)


def trial_schema(table: MasterTable) -> pa.Schema:
    """Return the schema of a stream with the table's key and 12 bytes under names that the table lacks."""
    payload = []
    for name, kind in (("payload_a", pa.int64()), ("payload_b", pa.int32())):
        while name in table.schema.names:
            name += "_"
        payload.append(pa.field(name, kind))
    return pa.schema([*(table.schema.field(name) for name in table.key), *payload])


@dataclass
class TrialStream:
    """An endless stream, made in blocks; the work of ``making`` them is known, to be left out.

    A share of the tuples has ``absent`` keys. Columns that are not of the key are filled with anything.
    """

    schema: pa.Schema
    keys: pa.RecordBatch
    skew: float
    rng: np.random.Generator
    absent: pa.RecordBatch | None = None
    absent_share: float = 0.0

    def __post_init__(self) -> None:
        names = self.keys.schema.names
        missing = [name for name in names if name not in self.schema.names]
        if missing:
            raise InvalidArgument(f"the stream has no column {missing[0]!r}, a column of the table's key: add it")
        self._distribution = KeyDistribution.zipf(self.keys.num_rows, self.skew)
        self._payload = {field.name: _anything(field.type) for field in self.schema if field.name not in names}
        self.making = Aside()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while True:
            before = Aside.now()
            block = self._make()
            self.making = self.making.plus(before)
            for start in range(0, block.num_rows, _BATCH_TUPLES):
                yield block.slice(start, _BATCH_TUPLES)

    def _make(self) -> pa.RecordBatch:
        ranks = pa.array(_ranks(self._distribution, _BLOCK_TUPLES, self.rng))
        keys = self.keys.take(ranks)
        if self.absent is not None and self.absent_share:
            is_absent = pa.array(self.rng.random(_BLOCK_TUPLES) < self.absent_share)
            columns = [
                pc.if_else(is_absent, absent, present)
                for absent, present in zip(self.absent.take(ranks).columns, keys.columns, strict=True)
            ]
            keys = pa.RecordBatch.from_arrays(columns, schema=keys.schema)
        columns = [
            self._payload[field.name] if field.name in self._payload else keys.column(field.name).cast(field.type)
            for field in self.schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _ranks(distribution: KeyDistribution, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return the positions of ``count`` keys, the most frequent key being 0."""
    ends = np.cumsum(distribution.keys * distribution.probability)
    group = np.minimum(np.searchsorted(ends, rng.random(count) * ends[-1], side="right"), ends.size - 1)
    before = np.cumsum(distribution.keys) - distribution.keys
    place = before[group] + np.floor(rng.random(count) * distribution.keys[group])
    return np.asarray(place, dtype=np.int64)


def _anything(kind: pa.DataType) -> pa.Array:
    """Return a block of values of a type; NULLs where neither a number nor a text can be cast to it."""
    for value in (0, "x" * _TEXT_BYTES, b"x" * _TEXT_BYTES):
        try:
            values: pa.Array = pa.repeat(pa.scalar(value).cast(kind), _BLOCK_TUPLES)
            return values
        except (pa.ArrowException, NotImplementedError):
            continue
    return pa.nulls(_BLOCK_TUPLES, kind)


def trial_operator(
    name: str, table: MasterTable, spec: JoinSpec, memory_bytes: int, options: dict[str, Any]
) -> StepOperator:
    """Return an operator, with the least memory that it needs if that is more.

    It finds no page of the table in the page cache, and leaves none there, as for a table larger than memory.
    """
    drop_pages(table)
    try:
        return algorithm(name).make(table, spec, memory_bytes, {"io": "drop_behind", **options})
    except BudgetTooSmall as error:
        if error.least_bytes is None or error.least_bytes <= memory_bytes:
            raise
        return trial_operator(name, table, spec, error.least_bytes, options)


class TrialJoin:
    """An operator that joins a trial stream and never lacks tuples; at most ``most_pending`` are offered ahead."""

    def __init__(self, op: StepOperator, stream: TrialStream, most_pending: int | None = None) -> None:
        self.op, self.stream = op, stream
        self._feeder = Feeder(iter(stream))
        self._most_pending = most_pending

    def step(self) -> None:
        self._feeder.fill(self.op, self._most_pending)
        for _ in self.op.step():
            pass

    def worked_s(self, steps: int) -> float:
        """Return the seconds of so many steps, without making their tuples."""
        self.stream.making = Aside()
        stopwatch = Stopwatch()
        for _ in range(steps):
            self.step()
        return max(1e-9, stopwatch.worked_s(self.stream.making))
