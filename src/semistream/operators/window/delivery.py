"""Results on their way out of a join: at once, or in stream order."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import OperatorMisuse
from semistream.core.metrics import Metrics
from semistream.core.saved_state import SavedState
from semistream.core.semantics import JoinSpec
from semistream.operators.join import Part
from semistream.state.reorder import ReorderBuffer
from semistream.state.results import ResultBuilder
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import TupleWindow
from semistream.storage import row_bits

__all__ = ["Delivery"]

_REORDER_SHARE = 0.25

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


class Delivery(Part):
    """Builds output batches of bounded size; in stream order they wait until all older tuples are answered."""

    def __init__(self, spec: JoinSpec, budget_bytes: int, *, ordered: bool) -> None:
        self.ordered = ordered
        self._spec = spec
        self._how = spec.how
        self._master_row_bytes = _fixed_row_bytes([spec.master_schema.field(n) for n in spec.needed_master_columns])
        self._tuple_bytes = _fixed_row_bytes(list(spec.stream_schema))
        self._reorder: ReorderBuffer | None = None
        self._share_out(budget_bytes)
        if ordered:
            self._reorder = ReorderBuffer(spec.output_schema, _reorder_bytes(budget_bytes), self._builder.max_rows)

    def _share_out(self, budget_bytes: int) -> None:
        self._budget_bytes = budget_bytes
        self._builder = ResultBuilder.for_budget(self._spec, budget_bytes)
        self.max_bytes = self._builder.max_bytes  # of an output batch
        # Space for candidate pairs: as many as are worked on at once.
        self.pair_rows, self.pair_slots = self._builder.pair_rows, self._builder.pair_slots

    @property
    def reserved_bytes(self) -> int:
        """The share of the budget that results have."""
        return self.reserved_bytes_in(self._budget_bytes)

    def reserved_bytes_in(self, budget_bytes: int) -> int:
        """Return the share that results would have of another budget."""
        building_bytes = ResultBuilder.for_budget(self._spec, budget_bytes).nbytes
        return building_bytes + (_reorder_bytes(budget_bytes) if self.ordered else 0)

    def resize(self, budget_bytes: int) -> None:
        if self._budget_bytes == budget_bytes:
            return
        self._share_out(budget_bytes)
        if self._reorder is not None:
            self._reorder.resize(_reorder_bytes(budget_bytes))

    def components(self) -> dict[str, int]:
        components = {"results": self._builder.nbytes}
        if self._reorder is not None:
            components["waiting results"] = self._reorder.nbytes
        return components

    def row_bytes(self, run: pa.RecordBatch) -> int | _Int64s:
        """Return the bytes of every row of ``run``, or of any row where all are of one size."""
        # One long text must not hide behind a short average.
        return row_bits(run) // 8 if self._master_row_bytes is None else self._master_row_bytes

    def tuple_bytes(self, batch: pa.RecordBatch) -> int | _Int64s:
        """Return the bytes of every stream tuple of ``batch``, or of any where all are of one size."""
        return row_bits(batch) // 8 if self._tuple_bytes is None else self._tuple_bytes

    def portions(
        self, store: TupleStore, slots: _Int32s, row_bytes: int | _Int64s, rows: npt.NDArray[np.signedinteger]
    ) -> list[slice]:
        """Cut pairs of what lies in ``slots`` and rows of these sizes into portions small enough to be copied."""
        beside = row_bytes if isinstance(row_bytes, int) else row_bytes[rows]
        return self._builder.portions(store, slots, beside)

    def _window_tuples(self, window: TupleWindow, slots: _Int32s) -> Iterator[pa.RecordBatch]:
        for portion in self._builder.portions(window.store, slots, 0):
            chosen = slots[portion]
            batch = self._builder.stream_only(window.store.take(chosen))
            yield from self.deliver(batch, window.number[chosen] if self.ordered else None)

    def matched(
        self, window: TupleWindow, slots: _Int32s, run: pa.RecordBatch, rows: npt.NDArray[np.signedinteger]
    ) -> Iterator[pa.RecordBatch]:
        """Deliver what the join returns of tuples that match rows of ``run``: pairs, or each tuple once, or nothing."""
        if self._how == "semi":
            slots = np.unique(slots[~window.matched[slots]])
        window.matched[slots] = True
        if self._how == "semi":
            yield from self._window_tuples(window, slots)
        elif self._how != "anti":
            batch = self._builder.joined(window.store, slots, run, rows)
            yield from self.deliver(batch, window.number[slots] if self.ordered else None)

    def leave(self, window: TupleWindow, slots: _Int32s, metrics: Metrics) -> Iterator[pa.RecordBatch]:
        """Count tuples that left the window, and deliver what the join returns of those that matched nothing."""
        unmatched = slots[~window.matched[slots]]
        metrics.tuples_answered += slots.size
        metrics.tuples_through_disk += slots.size
        metrics.tuples_without_match += unmatched.size
        if self._how in ("left", "anti"):
            yield from self._window_tuples(window, unmatched)

    def outside(self, batch: pa.RecordBatch, numbers: _Int64s) -> Iterator[pa.RecordBatch]:
        """Deliver what the join returns of tuples that match nothing and never entered the window."""
        if self._how in ("left", "anti"):
            yield from self.alone(batch, numbers)

    def beside(self, batch: pa.RecordBatch, master: pa.RecordBatch, numbers: _Int64s) -> Iterator[pa.RecordBatch]:
        """Deliver tuples that never entered the window, each beside the row of ``master`` that it matches."""
        yield from self.deliver(self._builder.beside(batch.columns, master), numbers)

    def alone(self, batch: pa.RecordBatch, numbers: _Int64s) -> Iterator[pa.RecordBatch]:
        """Deliver tuples that never entered the window by themselves."""
        yield from self.deliver(self._builder.stream_only(batch.columns), numbers)

    def deliver(self, batch: pa.RecordBatch, numbers: _Int64s | None) -> Iterator[pa.RecordBatch]:
        """Deliver finished rows; ``numbers`` are the arrival numbers of their tuples, where output is in order."""
        if self._reorder is None:
            yield batch
        else:
            assert numbers is not None
            self._reorder.add(numbers, batch)

    def release(self, oldest_pending: Callable[[], int]) -> Iterator[pa.RecordBatch]:
        """Return results that waited for older tuples; ``oldest_pending`` is asked where output is in order."""
        if self._reorder is not None:
            yield from self._reorder.release(oldest_pending())

    def identity(self) -> dict[str, Any]:
        return {"order": "stream" if self.ordered else "any"}

    def state(self, *, exact: bool) -> SavedState:
        saved = SavedState()
        if self._reorder is not None:
            if exact:
                raise OperatorMisuse("with order='stream' results wait in files: use order='any' for an exact state")
            saved.put_table("results", self._reorder.to_table())
        return saved

    def set_state(self, saved: SavedState) -> None:
        assert self._reorder is not None
        self._reorder.add_table(saved.numbered_table("results", self._spec.output_schema))

    def close(self) -> None:
        if self._reorder is not None:
            self._reorder.close()


def _reorder_bytes(budget_bytes: int) -> int:
    return int(budget_bytes * _REORDER_SHARE)


def _fixed_row_bytes(fields: list[pa.Field]) -> int | None:
    """Return the bytes of a row of these columns, NULL bits included, or None when rows differ."""
    total_bits = 0
    for field in fields:
        try:
            total_bits += field.type.bit_width + 1
        except ValueError:  # text, lists and the like have no width
            return None
    return -(-total_bits // 8)
