"""The join with a table that has no rows, such as a bucket without files: nothing matches, whatever the algorithm.

It takes the place of every algorithm there, so that each of them can count on at least one page.
"""

from collections.abc import Iterator

import pyarrow as pa

from semistream.core.budget import require_at_least
from semistream.core.errors import TupleTooLarge
from semistream.core.saved_state import SavedState
from semistream.operators.join import Join, JoinInputs, Part

__all__ = ["EmptyTableJoin"]

_BUFFER_SHARE = 1 / 4  # beside the tuples there are their copies with NULLs for the master columns
_LEAST_BYTES = 4096


class _WaitingTuples(Part):
    """Tuples of the stream that no step has answered yet."""

    def __init__(self, schema: pa.Schema, capacity_bytes: int) -> None:
        self._schema = schema
        self._capacity_bytes = capacity_bytes
        self.batches: list[pa.RecordBatch] = []

    @property
    def pending(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    @property
    def buffered(self) -> int:
        return self.pending

    @property
    def nbytes(self) -> int:
        return sum(batch.nbytes for batch in self.batches)

    def accept(self, batch: pa.RecordBatch) -> int:
        room = self._capacity_bytes - self.nbytes
        rows = int(batch.num_rows)
        while rows and batch.slice(0, rows).nbytes > room:
            rows //= 2
        if rows:
            self.batches.append(batch.slice(0, rows))
        elif not self.batches:
            raise TupleTooLarge(
                f"a stream tuple of {batch.slice(0, 1).nbytes} bytes exceeds the {room} that memory= leaves for the "
                "stream: give more memory"
            )
        return rows

    def components(self) -> dict[str, int]:
        return {"stream buffer": self.nbytes}

    def state(self, *, exact: bool) -> SavedState:
        saved = SavedState()
        saved.put_table("tuples", pa.Table.from_batches(self.batches, self._schema))
        return saved

    def set_state(self, saved: SavedState) -> None:
        self.batches = saved.table("tuples", self._schema).to_batches()

    def close(self) -> None:
        self.batches = []


class EmptyTableJoin(Join):
    """Answers every tuple as unmatched, in the order of the stream, and reads nothing."""

    def __init__(self, inputs: JoinInputs) -> None:
        require_at_least(inputs.budget_bytes, _LEAST_BYTES, f"{inputs.name} on a table without rows")
        self._spec = inputs.spec
        self._metrics = inputs.metrics
        self.stream = self._waiting = _WaitingTuples(
            inputs.spec.stream_schema, int(inputs.budget_bytes * _BUFFER_SHARE)
        )
        self.parts = {"stream": self._waiting}

    def step(self) -> Iterator[pa.RecordBatch]:
        batch = self._waiting.batches.pop(0)
        self._metrics.tuples_answered += batch.num_rows
        self._metrics.tuples_without_match += batch.num_rows
        if self._spec.how in ("left", "anti"):
            schema = self._spec.output_schema
            missing = [pa.nulls(batch.num_rows, schema.field(name).type) for name in self._spec.master_columns]
            yield pa.RecordBatch.from_arrays([*batch.columns, *missing], schema=schema)
