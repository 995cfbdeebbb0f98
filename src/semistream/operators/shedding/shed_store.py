"""Shed tuples and their arrival numbers: as a column, as counts in fixed bytes, and behind two callables.

The callables are for the network; `DiskSpool` is the store on disk. Both keep stream tuples and give each back once.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from semistream.core.errors import BrokenShedStore, OperatorMisuse
from semistream.kernels.arrays import Int64s
from semistream.operators.window.stream_buffer import StreamBuffer
from semistream.storage.files.row_sizes import batch_overhead_bytes

__all__ = ["ArrivalCounts", "CallableStore", "PutTuples", "TakeTuples", "numbered", "split_numbers"]

_RANGES = 1024


PutTuples: TypeAlias = Callable[[pa.RecordBatch], object]
TakeTuples: TypeAlias = Callable[[int], pa.RecordBatch]


class ArrivalCounts:
    """How many arrival numbers lie in each of 1,024 equal ranges, which widen by powers of two to cover all of them."""

    def __init__(self) -> None:
        self._counts: Int64s = np.zeros(_RANGES, dtype=np.int64)
        self._first = 0  # the range of the first count: range i holds numbers from i << shift on
        self._shift = 0
        self._total = 0

    @property
    def nbytes(self) -> int:
        return self._counts.nbytes

    @property
    def lower_bound(self) -> int | None:
        """The start of the range with the smallest number inside; None if empty."""
        if not self._total:
            return None
        return (self._first + int(np.flatnonzero(self._counts)[0])) << self._shift

    def add(self, numbers: Int64s) -> None:
        if numbers.size == 0:
            return
        low, high = int(numbers.min()), int(numbers.max())
        if not self._total or low >> self._shift < self._first or high >> self._shift >= self._first + _RANGES:
            self._cover(low, high)
        self._counts += np.bincount((numbers >> self._shift) - self._first, minlength=_RANGES)
        self._total += numbers.size

    def _cover(self, low: int, high: int) -> None:
        """Move and widen the ranges to cover all numbers inside and those from ``low`` to ``high``."""
        if not self._total:
            self._shift = 0
        occupied = np.flatnonzero(self._counts)
        ranges, counts = self._first + occupied, self._counts[occupied]
        if occupied.size:
            low = min(low, int(ranges[0]) << self._shift)
            high = max(high, int(ranges[-1]) << self._shift)
        shift = self._shift
        while (high >> shift) - (low >> shift) >= _RANGES:
            shift += 1
        self._counts[:] = 0
        self._first = low >> shift
        np.add.at(self._counts, (ranges >> (shift - self._shift)) - self._first, counts)
        self._shift = shift

    def remove(self, numbers: Int64s) -> bool:
        """Count numbers out; return False, and change nothing, if some cannot have been inside."""
        if numbers.size == 0:
            return True
        ranges = (numbers >> self._shift) - self._first
        if int(ranges.min()) < 0 or int(ranges.max()) >= _RANGES:
            return False
        gone = np.bincount(ranges, minlength=_RANGES)
        if (gone > self._counts).any():
            return False
        self._counts -= gone
        self._total -= numbers.size
        return True


class CallableStore:
    """Shed tuples that a user's callables carry away and bring back, in any order.

    The store itself keeps only counts. A snapshot cannot hold tuples that are out, so `state` refuses while some are.

    Parameters
    ----------
    schema
        The stream's. The callables see one column more, `number_column`: keep it with its tuple.
    put
        Takes a batch. If it raises, none of the batch counts as taken, and the caller gets the error.
    take
        Takes a number of rows and returns that many or fewer, at least one: it waits for them, or raises. A tuple that
        is not out raises `BrokenShedStore`.
    message_bytes
        About how many bytes to ask for at once.

    Examples
    --------
    >>> away = []
    >>> schema = pa.schema([("k", pa.int64())])
    >>> store = CallableStore(schema, put=away.append, take=lambda rows: away.pop().slice(0, rows))
    >>> store.put(pa.record_batch({"k": [7, 8]}, schema=schema), np.array([20, 10]))
    2
    >>> away[0].to_pydict(), store.num_rows, store.oldest_number
    ({'k': [7, 8], 'arrival_number': [20, 10]}, 2, 10)
    >>> batch, numbers = store.take(5)
    >>> batch.to_pydict(), numbers.tolist(), store.num_rows
    ({'k': [7, 8]}, [20, 10], 0)
    """

    disk_bytes = 0

    def __init__(self, schema: pa.Schema, *, put: PutTuples, take: TakeTuples, message_bytes: int = 64 << 10) -> None:
        StreamBuffer.require_supported(schema)
        self.number_column = "arrival_number"
        while self.number_column in schema.names:
            self.number_column = "_" + self.number_column
        self.schema = schema.append(pa.field(self.number_column, pa.int64(), nullable=False))
        self.num_rows = 0
        self._out_bytes = 0.0
        self._message_bytes = message_bytes
        self._overhead_bytes = batch_overhead_bytes(self.schema)
        self._put = put
        self._take = take
        self._out = ArrivalCounts()

    @property
    def memory_bytes(self) -> int:
        return self._out.nbytes + self._message_bytes

    @property
    def oldest_number(self) -> int | None:
        return self._out.lower_bound

    def put(self, batch: pa.RecordBatch, numbers: Int64s) -> int:
        if batch.num_rows == 0:
            return 0
        rows = numbered(batch, numbers, self.schema)
        self._put(rows)
        self._out.add(numbers)
        self.num_rows += batch.num_rows
        self._out_bytes += rows.nbytes
        return batch.num_rows

    def take(self, max_rows: int) -> tuple[pa.RecordBatch, Int64s]:
        """Bring back up to ``max_rows`` rows, fewer if those would be many bytes."""
        if not self.num_rows or max_rows <= 0:
            return split_numbers(pa.RecordBatch.from_pylist([], self.schema))
        row_bytes = max(1.0, self._out_bytes / self.num_rows)
        asked = max(1, min(max_rows, self.num_rows, int((self._message_bytes - self._overhead_bytes) / row_bytes)))
        batch, numbers = split_numbers(self._checked(self._take(asked), asked))
        if not self._out.remove(numbers):
            raise self._broken(f"arrival numbers that are not out, among {numbers[:8].tolist()}")
        self.num_rows -= batch.num_rows
        self._out_bytes -= row_bytes * batch.num_rows
        return batch, numbers

    def _checked(self, batch: object, asked: int) -> pa.RecordBatch:
        if not isinstance(batch, pa.RecordBatch):
            raise self._broken(f"a {type(batch).__name__}, not a RecordBatch")
        if batch.schema.names != self.schema.names or batch.schema.types != self.schema.types:
            raise self._broken(f"{_columns(batch.schema)} where {_columns(self.schema)} went out")
        if not 1 <= batch.num_rows <= asked:
            raise self._broken(f"{batch.num_rows} rows when asked for 1 to {asked}")
        for field, column in zip(self.schema, batch.columns, strict=True):
            if column.null_count and not field.nullable:
                raise self._broken(f"a NULL in {field.name!r}, which went out without")
        declared = pa.RecordBatch.from_arrays(batch.columns, schema=self.schema)
        # A copy of just these rows: a slice would keep all of the callable's batch alive.
        copied: pa.RecordBatch = pa.ipc.read_record_batch(declared.serialize(), self.schema)
        return copied

    def _broken(self, what: str) -> BrokenShedStore:
        return BrokenShedStore(
            f"take() of the callables in to= returned {what}; {self.num_rows} tuples are out: "
            "return each tuple that put() was given once, whole, and wait until there is one"
        )

    def state(self) -> pa.Table:
        if self.num_rows:
            raise OperatorMisuse(
                f"a snapshot cannot hold the {self.num_rows} shed tuples that the callables in to= have: "
                "step until they are back, or shed to='disk'"
            )
        return pa.Table.from_batches([], self.schema)

    def set_state(self, table: pa.Table) -> None:
        for batch in table.to_batches():
            self.put(*split_numbers(batch))

    def close(self) -> None:
        """The callables are the user's to end."""


def numbered(batch: pa.RecordBatch, numbers: Int64s, schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows with their arrival numbers as last column."""
    return pa.RecordBatch.from_arrays([*batch.columns, pa.array(numbers, pa.int64())], schema=schema)


def split_numbers(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Int64s]:
    """Return rows and arrival numbers of `numbered` rows."""
    last = batch.num_columns - 1
    return batch.select(range(last)), np.asarray(batch.column(last).to_numpy())


def _columns(schema: pa.Schema) -> str:
    return "[" + ", ".join(f"{field.name} {field.type}" for field in schema) + "]"
