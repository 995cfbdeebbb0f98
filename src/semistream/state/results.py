"""Joined rows, in batches of bounded size: stream columns by slot, master columns by row."""

from itertools import pairwise

import numpy as np
import pyarrow as pa

from semistream.core.semantics import JoinSpec
from semistream.kernels.arrays import Int32s, Int64s
from semistream.state.tuple_store import TupleStore

__all__ = ["ResultBuilder", "batch_bytes_for", "byte_portions"]


def batch_bytes_for(budget_bytes: int) -> int:
    """Return the largest output batch under this budget."""
    return int(np.clip(budget_bytes // 16, 16 << 10, 16 << 20))


def byte_portions(row_bytes: Int64s, max_bytes: int) -> list[slice]:
    """Cut rows of these sizes into portions of at most ``max_bytes``, at least one row each."""
    ends = np.cumsum(row_bytes)
    if not row_bytes.size or ends[-1] <= max_bytes:
        return [slice(0, row_bytes.size)][: row_bytes.size]
    cuts = [0]
    while cuts[-1] < row_bytes.size:
        done = ends[cuts[-1] - 1] if cuts[-1] else 0
        cuts.append(max(cuts[-1] + 1, int(np.searchsorted(ends, done + max_bytes, side="right"))))
    return [slice(start, stop) for start, stop in pairwise(cuts)]


class ResultBuilder:
    """Builds output batches of bounded size: the results of a key leave in portions, but a row is never split."""

    def __init__(self, spec: JoinSpec, max_rows: int, max_bytes: int) -> None:
        self.max_rows = max_rows
        self._spec = spec
        self.max_bytes = max_bytes
        self._master_columns = list(spec.master_columns)
        self._null_fields = list(spec.output_schema)[len(spec.stream_schema) :]
        self.pair_rows = np.empty(max_rows, dtype=np.int32)
        self.pair_slots = np.empty(max_rows, dtype=np.int32)

    @classmethod
    def for_budget(cls, spec: JoinSpec, budget_bytes: int) -> "ResultBuilder":
        """Return a builder whose batches are small beside the budget."""
        return cls(spec, int(np.clip(budget_bytes // 2048, 256, 65536)), batch_bytes_for(budget_bytes))

    @property
    def nbytes(self) -> int:
        """The pairs being matched, and one output batch."""
        return self.pair_rows.nbytes + self.pair_slots.nbytes + self.max_bytes

    def portions(self, store: TupleStore, slots: Int32s, beside_bytes: int | Int64s) -> list[slice]:
        """Cut joined rows into portions of at most ``max_bytes``: these stream tuples with ``beside_bytes`` each."""
        row_bytes = beside_bytes + store.fixed_bytes
        text_bytes = store.sizes(slots)
        if text_bytes is not None:
            row_bytes = row_bytes + text_bytes
        if isinstance(row_bytes, int):
            rows = max(1, self.max_bytes // max(1, row_bytes))
            return [slice(start, min(start + rows, slots.size)) for start in range(0, slots.size, rows)]
        return byte_portions(row_bytes, self.max_bytes)

    def joined(self, store: TupleStore, slots: Int32s, run: pa.RecordBatch, rows: Int32s) -> pa.RecordBatch:
        """Return stream tuples beside the master rows they match."""
        master = run.select(self._master_columns).take(pa.array(rows))
        return self.beside(store.take(slots), master)

    def beside(self, stream_columns: list[pa.Array], master: pa.RecordBatch) -> pa.RecordBatch:
        """Return stream tuples beside master rows, one by one."""
        columns = [*stream_columns, *(master.column(name) for name in self._master_columns)]
        return pa.RecordBatch.from_arrays(columns, schema=self._spec.output_schema)

    def stream_only(self, stream_columns: list[pa.Array]) -> pa.RecordBatch:
        """Return stream tuples with NULL master columns, if the output has any."""
        rows = len(stream_columns[0])
        nulls = [pa.nulls(rows, field.type) for field in self._null_fields]
        return pa.RecordBatch.from_arrays([*stream_columns, *nulls], schema=self._spec.output_schema)
