"""The join with a table that has no rows, such as a bucket without files: nothing matches, whatever the algorithm.

It takes the place of every algorithm there, so that each of them can count on at least one page.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from semistream.core.budget import require_at_least
from semistream.core.errors import TupleTooLarge
from semistream.operators.driver import StepOperator

__all__ = ["EmptyTableJoin"]

_BUFFER_SHARE = 1 / 4  # beside the tuples there are their copies with NULLs for the master columns
_LEAST_BYTES = 4096


class EmptyTableJoin(StepOperator):
    """Answers every tuple as unmatched, in the order of the stream, and reads nothing."""

    @classmethod
    def named(cls, name: str) -> "type[EmptyTableJoin]":
        """Return the class that goes by the name of the algorithm that was asked for."""
        return type(cls.__name__, (cls,), {"name": name, "__module__": cls.__module__})

    def _open(self) -> None:
        require_at_least(self.budget_bytes, _LEAST_BYTES, f"{self.name} on a table without rows")
        self._waiting: list[pa.RecordBatch] = []

    @property
    def pending(self) -> int:
        return sum(batch.num_rows for batch in self._waiting)

    @property
    def _waiting_bytes(self) -> int:
        return sum(batch.nbytes for batch in self._waiting)

    def _accept(self, batch: pa.RecordBatch) -> int:
        room = int(self.budget_bytes * _BUFFER_SHARE) - self._waiting_bytes
        rows = int(batch.num_rows)
        while rows and batch.slice(0, rows).nbytes > room:
            rows //= 2
        if rows:
            self._waiting.append(batch.slice(0, rows))
        elif not self._waiting:
            raise TupleTooLarge(
                f"a stream tuple of {batch.slice(0, 1).nbytes} bytes exceeds the {room} that memory= leaves for the "
                "stream: give more memory"
            )
        return rows

    def _step(self) -> Iterator[pa.RecordBatch]:
        batch = self._waiting.pop(0)
        self.metrics.tuples_answered += batch.num_rows
        self.metrics.tuples_without_match += batch.num_rows
        if self.spec.how in ("left", "anti"):
            missing = [
                pa.nulls(batch.num_rows, self.spec.output_schema.field(n).type) for n in self.spec.master_columns
            ]
            yield pa.RecordBatch.from_arrays([*batch.columns, *missing], schema=self.spec.output_schema)

    def _components(self) -> dict[str, int]:
        return {"stream buffer": self._waiting_bytes}

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        return {}, {"waiting": pa.Table.from_batches(self._waiting, self.spec.stream_schema)}

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self._waiting = tables["waiting"].to_batches()

    def _release(self) -> None:
        self._waiting = []

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.memory().total_bytes <= self.budget_bytes
