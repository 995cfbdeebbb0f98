"""An operator whose every step is known in advance."""

from collections.abc import Iterator

import pyarrow as pa

from semistream.core.budget import MemoryReport
from semistream.core.contract import Operator
from semistream.core.metrics import Metrics
from semistream.core.semantics import JoinSpec

STREAM = pa.schema([("k", pa.int64())])


class FakeOperator:
    """Holds at most ``capacity`` tuples and answers ``per_step`` of them a step, each with itself."""

    name = "fake"

    def __init__(self, capacity: int = 10**9, per_step: int = 10**9, fail_at: int | None = None) -> None:
        self.spec = JoinSpec.resolve(STREAM, pa.schema([("k", pa.int64())]), "k")
        self.metrics = Metrics()
        self.offered: list[int] = []
        self.closed = 0
        self._capacity = capacity
        self._per_step = per_step
        self._fail_at = fail_at
        self._waiting: list[int] = []

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def offer(self, batch: pa.RecordBatch) -> int:
        taken = min(batch.num_rows, self._capacity - self.pending)
        self.offered.append(batch.num_rows)
        self._waiting += batch.column("k").to_pylist()[:taken]
        self.metrics.tuples_in += taken
        return taken

    def step(self) -> Iterator[pa.RecordBatch]:
        answered, self._waiting = self._waiting[: self._per_step], self._waiting[self._per_step :]
        for key in answered:
            if key == self._fail_at:
                raise ZeroDivisionError(key)
            yield pa.record_batch({"k": [key]})
        self.metrics.tuples_answered += len(answered)
        self.metrics.steps += 1

    def drain(self) -> Iterator[pa.RecordBatch]:
        while self.pending:
            yield from self.step()

    def memory(self) -> MemoryReport:
        return MemoryReport(0)

    def snapshot(self) -> bytes:
        return b""

    def restore(self, snapshot: bytes) -> None:
        pass

    def close(self) -> None:
        self.closed += 1


def _satisfies_the_contract(op: FakeOperator) -> Operator:
    return op


def batches(*sizes: int) -> list[pa.RecordBatch]:
    """Return batches of these sizes with the keys 0, 1, 2 ..."""
    made, start = [], 0
    for size in sizes:
        made.append(pa.record_batch({"k": pa.array(range(start, start + size), pa.int64())}))
        start += size
    return made


def keys(results: Iterator[pa.RecordBatch]) -> list[int]:
    return [key for batch in results for key in batch.column("k").to_pylist()]
