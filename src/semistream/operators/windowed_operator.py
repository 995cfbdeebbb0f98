"""What joins with a window of waiting stream tuples share: the stream side, delivery, their part of the contract."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from semistream.core.semantics import JoinSpec, Order
from semistream.operators.delivery import Delivery
from semistream.operators.matching import PairFilter
from semistream.operators.step_operator import StepOperator
from semistream.operators.windowed_stream import WindowedStream
from semistream.storage import Io, MasterTable, PageReader

__all__ = ["WindowedOperator"]


class WindowedOperator(StepOperator):
    """Base of the joins that keep stream tuples in a window; the window is set by the algorithm."""

    _stream: WindowedStream

    def __init__(self, table: MasterTable, spec: JoinSpec, budget_bytes: int, *, order: Order, io: Io) -> None:
        self._order = order
        self._io = io
        super().__init__(table, spec, budget_bytes)

    def _open(self) -> None:
        self._filter = PairFilter(self.spec)
        self._delivery = Delivery(self.spec, self.budget_bytes, ordered=self._order == "stream")
        self._reader = PageReader(self.table, columns=self.spec.needed_master_columns, io=self._io)

    @property
    def window_capacity_tuples(self) -> int:
        """How many tuples H_S can hold; 0 until the first tuples were measured."""
        return self._stream.capacity_tuples

    @property
    def pending(self) -> int:
        return self._stream.pending

    @property
    def buffered(self) -> int:
        return self._stream.pending - self._stream.tuples_in_window

    def _accept(self, batch: pa.RecordBatch) -> int:
        return self._stream.accept(batch)

    def _release_in_order(self) -> Iterator[pa.RecordBatch]:
        """Return the results that no older tuple holds back any more."""
        if self._delivery.ordered:
            yield from self._delivery.release(self._stream.oldest_pending_number)

    def _components(self) -> dict[str, int]:
        return {
            "stream buffer": self._stream.buffer_bytes,
            "H_S": self._stream.hash_bytes,
            "queue": self._stream.queue_bytes,
            **self._delivery.components(),
        }

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "order": self._order}

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        header, tables = self._stream.state()
        return header, {**tables, **self._delivery.state()}

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self._stream.set_state(header, tables)
        self._delivery.set_state(tables)

    def _release(self) -> None:
        self._reader.close()
        self._delivery.close()

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.memory().total_bytes <= self.budget_bytes
