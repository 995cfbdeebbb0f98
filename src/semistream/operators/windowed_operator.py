"""What joins with a window of waiting stream tuples share: the stream side, delivery, their part of the contract."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from semistream.core.semantics import JoinSpec, Order
from semistream.operators.driver import StepOperator
from semistream.operators.phases.scan_plan import ScanPlan
from semistream.operators.shedding.load_shedding import (
    UPFRONT_STRATEGIES,
    LoadShedding,
    SheddingConfig,
    Strategy,
    shedding_config,
)
from semistream.operators.shedding.overload import Overload
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import PairFilter
from semistream.operators.window.stream_side import StreamSide
from semistream.state.tuple_window import WindowCodes
from semistream.storage import Access, Io, MasterTable, PageReader

__all__ = ["WindowedOperator"]


class WindowedOperator(StepOperator):
    """Base of the joins that keep stream tuples in a window; the window is set by the algorithm."""

    _stream: StreamSide

    _shedding: LoadShedding | None = None
    _overload: Overload | None = None

    def __init__(
        self,
        table: MasterTable,
        spec: JoinSpec,
        budget_bytes: int,
        *,
        order: Order,
        io: Io,
        shedding: SheddingConfig | Strategy | None = None,
        shedding_strategies: Collection[Strategy] = UPFRONT_STRATEGIES,
    ) -> None:
        self._order = order
        self._io = io
        self._shedding_config = shedding_config(shedding)
        self._shedding_strategies = shedding_strategies
        try:
            super().__init__(table, spec, budget_bytes)
        except BaseException:
            if self._shedding is not None:
                self._shedding.close()  # its directory would outlive an operator that there is not
            raise

    def _open(self) -> None:
        self._filter = PairFilter(self.spec)
        self._delivery = Delivery(self.spec, self.budget_bytes, ordered=self._order == "stream")
        self._reader = PageReader(self.table, columns=self.spec.needed_master_columns, io=self._io, access=self._access)
        self._tuples_in_at_open = self.metrics.tuples_in
        if self._shedding_config is not None:
            self.metrics.shed_strategy = self._shedding_config.strategy
            self._shedding = LoadShedding(
                self._shedding_config,
                self.spec.stream_schema,
                algorithm=self.name,
                strategies=self._shedding_strategies,
                message_bytes=self.shed_message_bytes(self.budget_bytes),
            )

    @property
    def _access(self) -> Access:
        """How R is read."""
        return "scan"

    @staticmethod
    def shed_message_bytes(budget_bytes: int) -> int:
        """Return how many bytes of tuples that are shed may be on their way."""
        return int(np.clip(budget_bytes // 128, 1 << 10, 64 << 10))

    def _make_stream(
        self,
        codes: WindowCodes,
        plan: ScanPlan,
        *,
        max_tuples: int | None = None,
        max_window_bytes: int | None = None,
    ) -> StreamSide:
        """Return the stream side with its shares of ``plan``."""
        return StreamSide(
            self.spec,
            codes,
            ordered=self._delivery.ordered,
            buffer_bytes=plan.stream_buffer_bytes,
            window_bytes=plan.window_bytes,
            max_tuples=max_tuples,
            max_window_bytes=max_window_bytes,
        )

    @property
    def _reserved_bytes(self) -> int:
        """Memory that does not depend on how the rest of the budget is split."""
        return self._reserved_bytes_in(self.budget_bytes)

    def _reserved_bytes_in(self, memory_bytes: int) -> int:
        """Return the same for an operator that uses only so much of its budget."""
        shedding_bytes = 0 if self._shedding is None else self._shedding.memory_bytes
        return self._delivery.reserved_bytes_in(memory_bytes) + shedding_bytes

    @property
    def _sheds(self) -> bool:
        return self._shedding_config is not None

    @property
    def _room_for_new(self) -> int:
        """How many tuples the next iteration has room for: the papers' w."""
        return self._stream.capacity_tuples - self._stream.tuples_in_window

    def _begin_step(self) -> None:
        """Shed load, or reload what was shed: S2 Algorithm 2."""
        if self._shedding is None:
            return
        if self._overload is None:
            self._overload = Overload(
                self._shedding,
                self._stream,
                self._delivery,
                self.metrics,
                tuples_in_before=self._tuples_in_at_open,
            )
        self._overload.relieve(self._room_for_new, may_shed=self._stream_goes_on)

    def _picks_from_oldest(self) -> int:
        """Return which tuple of the queue picks what is read, counted from the oldest: one that will not be shed."""
        return self._overload.picks_from_oldest(self._stream.tuples_in_window) if self._overload else 0

    def _picks_next(self, queued: int) -> int | None:
        """Return which of ``queued`` tuples will pick in the next step, or None when that is not settled."""
        return self._overload.will_pick_from_oldest(queued) if self._overload else 0

    @property
    def window_capacity_tuples(self) -> int:
        """How many tuples H_S can hold; 0 until the first tuples were measured."""
        return self._stream.capacity_tuples

    @property
    def pending(self) -> int:
        return self._stream.pending + (0 if self._shedding is None else self._shedding.tuples_inside)

    @property
    def buffered(self) -> int:
        return self._stream.buffered

    def _accept(self, batch: pa.RecordBatch) -> int:
        return self._stream.accept(batch)

    def _release_in_order(self) -> Iterator[pa.RecordBatch]:
        """Return the results that no older tuple holds back any more."""
        if self._delivery.ordered:
            oldest = self._overload.oldest_pending_number if self._overload else self._stream.oldest_pending_number
            yield from self._delivery.release(oldest)

    def _components(self) -> dict[str, int]:
        return {
            "stream buffer": self._stream.buffer_bytes,
            "H_S": self._stream.hash_bytes,
            "queue": self._stream.queue_bytes,
            **self._delivery.components(),
            **({} if self._shedding is None else {"shedding": self._shedding.memory_bytes}),
        }

    def _identity(self) -> dict[str, Any]:
        sheds = None if self._shedding_config is None else self._shedding_config.strategy
        return {**super()._identity(), "order": self._order, "shedding": sheds}

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        header, tables = self._stream.state()
        if self._shedding is not None:
            shed_header, shed_tables = self._shedding.state()
            header, tables = {**header, **shed_header}, {**tables, **shed_tables}
        return header, {**tables, **self._delivery.state()}

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self._stream.set_state(header, tables)
        self._delivery.set_state(tables)
        if self._shedding is not None:
            self._shedding.set_state(header, tables)

    def _release(self) -> None:
        self._reader.close()
        self._delivery.close()
        self._overload = None
        if self._shedding is not None:
            self._shedding.close()

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.memory().total_bytes <= self.budget_bytes
