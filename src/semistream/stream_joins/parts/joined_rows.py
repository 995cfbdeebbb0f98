"""What leaves a join of two streams: the columns of both, the key once, in batches of bounded size."""

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument, SchemaMismatch
from semistream.core.punctuated_batch import KeyMarks, PunctuatedBatch
from semistream.kernels.arrays import Int32s, Int64s
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.state.results import batch_bytes_for
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, JoinKey, Side
from semistream.stream_joins.parts.part import Part
from semistream.stream_joins.parts.stream_metrics import StreamMetrics

__all__ = ["JoinedRows", "StreamHow"]

StreamHow: TypeAlias = Literal["inner", "left"]


class JoinedRows(Part):
    """Finds pairs, as many at once as there is space for, and builds output batches."""

    def __init__(self, key: JoinKey, how: StreamHow, budget_bytes: int, metrics: StreamMetrics) -> None:
        if how not in get_args(StreamHow):
            raise InvalidArgument(f"how={how!r} is unknown for two streams: use 'inner' or 'left'")
        left, right = key.schemas
        shared = {key.names[RIGHT]} if key.names[LEFT] == key.names[RIGHT] else set()
        self._right_columns = [name for name in right.names if name not in shared]
        clash = sorted(set(self._right_columns) & set(left.names))
        if clash:
            raise SchemaMismatch(f"column {clash[0]!r} is in both streams: rename it in one of them")
        self.key = key
        self.how = how
        self.metrics = metrics
        self._right = right
        right_fields = [right.field(name) for name in self._right_columns]
        if how == "left":
            right_fields = [field.with_nullable(True) for field in right_fields]
        self.schema = pa.schema([*left, *right_fields])
        self._no_rows = pa.RecordBatch.from_pylist([], schema=self.schema)
        self._max_bytes = batch_bytes_for(budget_bytes)
        most_pairs = _most_pairs(budget_bytes)
        self.pair_rows = np.empty(most_pairs, dtype=np.int32)
        self.pair_slots = np.empty(most_pairs, dtype=np.int32)

    @staticmethod
    def nbytes_for(budget_bytes: int) -> int:
        return 8 * _most_pairs(budget_bytes) + batch_bytes_for(budget_bytes)

    def components(self) -> dict[str, int]:
        return {"results": self.pair_rows.nbytes + self.pair_slots.nbytes + self._max_bytes}

    def pairs(self, by_key: FifoMultimap, codes: Int64s) -> Iterator[tuple[Int32s, Int32s, bool]]:
        """Yield pairs of codes and entries: positions, slots, and whether this is one entry for each code, in order.

        The next pairs are written over these.
        """
        found, cursors = by_key.probe(codes)
        at = 0
        while at < found.size:
            start = at
            at, count = by_key.pairs(found, cursors, at, self.pair_rows, self.pair_slots)
            is_each_once = start == 0 and at == count == found.size == codes.size
            yield self.pair_rows[:count], self.pair_slots[:count], is_each_once

    def joined(
        self,
        side: Side,
        rows: pa.RecordBatch,
        own: Int32s | None,
        slots: Int32s,
        take: Callable[[Int32s], Sequence[pa.Array]],
        taken_row_bytes: float,
    ) -> Iterator[PunctuatedBatch]:
        """Yield tuples of one stream beside those of the other that they match.

        For each pair ``own`` is the position in ``rows``; None for all of them in order. ``take`` returns the columns
        of the others by their ``slots``; these have ``taken_row_bytes`` on average.
        """
        row_bytes = rows.nbytes / max(1, rows.num_rows) + taken_row_bytes
        step = max(1, int(self._max_bytes / max(1.0, row_bytes)))
        for start in range(0, slots.size, step):
            portion = slice(start, start + step)
            mine = (rows[portion] if own is None else rows.take(pa.array(own[portion]))).columns
            others = take(slots[portion])
            left, right = (mine, others) if side == LEFT else (others, mine)
            chosen = [right[self._right.get_field_index(name)] for name in self._right_columns]
            yield self._deliver([*left, *chosen])

    def left_alone(self, left: Sequence[pa.Array]) -> Iterator[PunctuatedBatch]:
        """Yield left tuples that match nothing, if there are any."""
        rows = len(left[0])
        if rows:
            nulls = [pa.nulls(rows, self._right.field(name).type) for name in self._right_columns]
            yield self._deliver([*left, *nulls])

    def _deliver(self, columns: list[pa.Array]) -> PunctuatedBatch:
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        self.metrics.rows_out += rows.num_rows
        return PunctuatedBatch.without_marks(rows, self.key.dtype)

    def punctuations(self, marks: KeyMarks) -> PunctuatedBatch:
        self.metrics.punctuations_out += len(marks)
        return PunctuatedBatch(self._no_rows, marks)


def _most_pairs(budget_bytes: int) -> int:
    return int(np.clip(budget_bytes // 2048, 256, 65536))
