"""What leaves a join of two streams: the columns of both, the key once, in batches of bounded size."""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument, SchemaMismatch
from semistream.state.results import batch_bytes_for
from semistream.stream_joins.join_key import LEFT, RIGHT, JoinKey, Side

__all__ = ["JoinedRows", "StreamHow"]

StreamHow: TypeAlias = Literal["inner", "left"]


class JoinedRows:
    """Builds output batches.

    Attributes
    ----------
    schema
        Of the output: all columns of the left stream, and those of the right one but a key of the same name.
    none
        No row, for punctuations that leave by themselves.
    pair_rows, pair_slots
        Space for pairs: as many as leave at once.
    """

    def __init__(self, left: pa.Schema, right: pa.Schema, key: JoinKey, how: StreamHow, budget_bytes: int) -> None:
        if how not in get_args(StreamHow):
            raise InvalidArgument(f"how={how!r} is unknown for two streams: use 'inner' or 'left'")
        shared = {key.names[RIGHT]} if key.names[LEFT] == key.names[RIGHT] else set()
        self._right_columns = [name for name in right.names if name not in shared]
        clash = sorted(set(self._right_columns) & set(left.names))
        if clash:
            raise SchemaMismatch(f"column {clash[0]!r} is in both streams: rename it in one of them")
        self._left = left
        self._right = right
        right_fields = [right.field(name) for name in self._right_columns]
        if how == "left":
            right_fields = [field.with_nullable(True) for field in right_fields]
        self.schema = pa.schema([*left, *right_fields])
        self.none = pa.RecordBatch.from_pylist([], schema=self.schema)
        self.max_bytes = batch_bytes_for(budget_bytes)
        most_pairs = _most_pairs(budget_bytes)
        self.pair_rows = np.empty(most_pairs, dtype=np.int32)
        self.pair_slots = np.empty(most_pairs, dtype=np.int32)

    @property
    def nbytes(self) -> int:
        """The pairs being matched, and one output batch."""
        return self.pair_rows.nbytes + self.pair_slots.nbytes + self.max_bytes

    @staticmethod
    def nbytes_for(budget_bytes: int) -> int:
        """Return what `nbytes` is under a budget."""
        return 8 * _most_pairs(budget_bytes) + batch_bytes_for(budget_bytes)

    def pairs(self, side: Side, own: Sequence[pa.Array], opposite: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return tuples of one stream beside those of the other that they match."""
        left, right = (own, opposite) if side == LEFT else (opposite, own)
        chosen = [right[self._right.get_field_index(name)] for name in self._right_columns]
        return pa.RecordBatch.from_arrays([*left, *chosen], schema=self.schema)

    def left_alone(self, left: Sequence[pa.Array]) -> pa.RecordBatch:
        """Return left tuples that match nothing."""
        rows = len(left[0])
        nulls = [pa.nulls(rows, self._right.field(name).type) for name in self._right_columns]
        return pa.RecordBatch.from_arrays([*left, *nulls], schema=self.schema)


def _most_pairs(budget_bytes: int) -> int:
    return int(np.clip(budget_bytes // 2048, 256, 65536))
