"""MESHJOIN.

N. Polyzotis, S. Skiadopoulos, P. Vassiliadis, A. Simitsis, N.-E. Frantzell: "Supporting Streaming Updates in an
Active Data Warehouse", ICDE 2007 (S3).

R is scanned over and over, b pages at a time. In every iteration w new stream tuples join the window; a chunk of
stream tuples leaves it when it has met every page of R. One read of b pages is shared by the whole window, so
the disk's cost per stream tuple falls with the memory given to the window. No index of keys, no order, any condition.

::

    stream ─► stream buffer ─ w tuples ─► H_S (hash of tuples)  ◄─ probe ─ disk buffer ◄─ b pages ─ R (cyclic scan)
                                          Q  (chunks, oldest first)            │
                                          └─ the oldest chunk expires          └─► results

    memory M = disk buffer + index (where pages lie) + stream buffer + H_S + Q + results being built
               (+ results that wait, for stream order)

Symbols
-------
==========  ============================  ==============================================
paper       here                          unit
==========  ============================  ==============================================
``M_max``   ``budget_bytes``              bytes
``N_R``     ``num_pages``                 pages
``b``       ``b``                         pages read per iteration
``w``       ``w``                         stream tuples read per iteration
``k``       ``iterations_per_cycle``      iterations for one scan of R
``H``       ``_stream.window``            stream tuples, hashed by key (H_S in later papers)
``Q``       ``_chunks``, and the order    chunks of w tuples, oldest first
            inside the window
==========  ============================  ==============================================

Deviations
----------
D1  A chunk expires at the end of the iteration in which it met its last pages, not at the start of the next one
    (ll. 3-6): unmatched tuples of a left or anti join leave one iteration sooner, and nothing is pending after it.
D2  N_R need not be a multiple of b: the scan's last read is shorter, and a read never crosses a file. Expiry
    counts pages met and not iterations, so b may change in flight: a read is then cut where the oldest chunk completes.
D3  A NULL key matches nothing: such a tuple is answered when it is read and never enters H.
D4  While the stream is silent iterations go on with fewer or no new tuples until every tuple is answered; with
    nothing pending R is not read. A chunk is also smaller than w when less than w tuples fit the window, because their
    text is long or because b was changed.
D5  The next b pages are read and decoded while the current ones are joined, so the disk buffer is held three times:
    as bytes, as the next pages and as the current pages.
D6  Theorem 3.1 asks for an arrival rate of at most the service rate. Here the stream buffer refuses tuples when it is
    full, so that a faster stream waits instead of being lost.
D7  Without a given b, it is as large as pays: at most 30% of the budget and 2 MB a read, not the optimum of the cost
    model (section 3.2).
D8  For output in stream order results wait in memory and, beyond a share of the budget, on disk (section 3.3 attaches
    them to H).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.core.semantics import JoinSpec, Order, require_order
from semistream.operators.chunk_queue import CHUNK_BYTES, ChunkQueue
from semistream.operators.delivery import Delivery
from semistream.operators.matching import PairFilter, matching_for
from semistream.operators.registry import register
from semistream.operators.scan_plan import ScanPlan, ScanPlanner
from semistream.operators.step_operator import StepOperator
from semistream.operators.windowed_stream import WindowedStream
from semistream.storage import MasterTable, PageReader, ReadAhead

__all__ = ["Meshjoin", "MeshjoinConfig"]

_Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class MeshjoinConfig:
    """Settings of MESHJOIN beyond the budget; None is worked out from the budget.

    Attributes
    ----------
    b
        Pages of R per iteration.
    w
        Stream tuples per iteration.
    order
        ``"any"``, or ``"stream"`` for output in the order of the stream.
    io
        ``"buffered"``, or ``"drop_behind"`` to leave nothing in the page cache.
    """

    b: int | None = None
    w: int | None = None
    order: Order = "any"
    io: Literal["buffered", "drop_behind"] = "buffered"

    def __post_init__(self) -> None:
        for name, value in (("b", self.b), ("w", self.w)):
            if value is not None and value < 1:
                raise InvalidArgument(f"{name}={value} must be at least 1")
        require_order(self.order)


@register("meshjoin", MeshjoinConfig, ("heap", "clustered"), takes_conditions=True)
class Meshjoin(StepOperator):
    """Exact join of a stream with a table by a cyclic scan of the table."""

    def __init__(
        self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: MeshjoinConfig | None = None
    ) -> None:
        super().__init__(table, spec, budget_bytes)
        self.config = config or MeshjoinConfig()
        self._matching = matching_for(spec)
        self._filter = PairFilter(spec)
        self._delivery = Delivery(spec, budget_bytes, ordered=self.config.order == "stream")
        self._reader = PageReader(table, columns=spec.needed_master_columns, io=self.config.io)
        self._pages = self._reader.pages
        self.num_pages = self._pages.num_pages
        self._planner = ScanPlanner(
            self._reader,
            spec,
            self._matching,
            budget_bytes=budget_bytes,
            other_bytes=self._delivery.reserved_bytes,
            ordered=self._delivery.ordered,
            what=f"meshjoin on {table.path}",
        )
        self._plan = self._planner.plan(self.config.b)
        self._w = self.config.w
        self._disk_buffer = ReadAhead(self._reader, self._plan.read_bytes)
        self._stream = WindowedStream(
            spec,
            self._matching,
            ordered=self._delivery.ordered,
            buffer_bytes=self._plan.stream_buffer_bytes,
            window_bytes=self._plan.window_bytes,
            max_window_bytes=budget_bytes,
            max_tuples=None if self._w is None else self._w * self._plan.iterations_per_cycle,
        )
        self._chunks = ChunkQueue(self._plan.chunks)
        self._scanned_pages = 0
        self._cycles_before = 0  # those of the operator whose snapshot was restored

    # --- the paper's parameters ---------------------------------------------------------------------------------

    @property
    def b(self) -> int:
        return self._plan.b

    @property
    def w(self) -> int:
        """Stream tuples read per iteration; 0 until the first tuples were measured."""
        return self._w or -(-self._stream.capacity_tuples // self.iterations_per_cycle)

    @property
    def iterations_per_cycle(self) -> int:
        return self._plan.iterations_per_cycle

    @property
    def window_capacity_tuples(self) -> int:
        """How many tuples H_S can hold; 0 until the first tuples were measured."""
        return self._stream.capacity_tuples

    def retune(self, *, b: int | None = None, w: int | None = None) -> None:
        """Change b or w between two steps (S3 section 3.3, "dynamic tuning"); results stay exact.

        Raises
        ------
        InvalidArgument
            When the pending tuples do not fit what the new b leaves room for; nothing is changed then.
        """
        self._require_ready("retune")
        MeshjoinConfig(b=b, w=w)
        plan = self._planner.plan(b or self.b)
        self._w, w_before = w or self._w, self._w
        self._disk_buffer.close()  # first, so that the old and the new shares are never held together
        try:
            self._share_out(plan, self._chunks.items())
        except InvalidArgument:
            self._w = w_before
            raise
        finally:
            self._disk_buffer = ReadAhead(self._reader, self._plan.read_bytes)

    def _share_out(self, plan: ScanPlan, chunks: list[tuple[int, int]]) -> None:
        """Give the stream side its shares of ``plan``, with these chunks pending."""
        queue = ChunkQueue.holding(chunks, plan.chunks)
        # Chunks of a smaller b may be more than a cycle of this plan has.
        extra_bytes = queue.nbytes - plan.chunks * CHUNK_BYTES
        self._stream.resize(
            plan.stream_buffer_bytes,
            plan.window_bytes - extra_bytes,
            None if self._w is None else self._w * plan.iterations_per_cycle,
        )
        self._chunks = queue
        self._plan = plan

    # --- the loop: Fig. 4 ---------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        return self._stream.pending

    def _accept(self, batch: pa.RecordBatch) -> int:
        return self._stream.accept(batch)

    def _step(self) -> Iterator[pa.RecordBatch]:
        run, pages = self._read_pages()  # l. 2, b pages
        yield from self._admit_chunk()  # l. 2, w tuples; ll. 7-8
        yield from self._join(run)  # ll. 9-10
        self._scanned_pages += pages
        self.metrics.cycles = self._scanned_pages // self.num_pages - self._cycles_before
        yield from self._expire_chunks()  # ll. 3-6 (D1)
        if self._delivery.ordered:
            yield from self._delivery.release(self._stream.oldest_pending_number)

    def _read_pages(self) -> tuple[pa.RecordBatch, int]:
        first, count = self._run_at(self._scanned_pages)
        run = self._disk_buffer.read(first, count, then=self._run_at(self._scanned_pages + count))
        self.metrics.pages_read = self._disk_buffer.pages_read
        self.metrics.bytes_read = self._disk_buffer.bytes_read
        return run, count

    def _run_at(self, scanned_pages: int) -> tuple[int, int]:
        """Return (page, count) of the read at this position of the scan (D2).

        The next chunk to complete has to complete exactly at the end of a read.
        """
        first = scanned_pages % self.num_pages
        count = self._pages.run_length(first, self.b)
        start = self._chunks.first_start_after(scanned_pages - self.num_pages)
        if start is not None:
            count = min(count, start + self.num_pages - scanned_pages)
        return first, count

    def _admit_chunk(self) -> Iterator[pa.RecordBatch]:
        if self._chunks.is_full:
            return  # only while chunks of a smaller b are pending: the next expiry makes room
        admitted = self._stream.admit(self.w)
        if admitted.tuples:
            self._chunks.push(self._scanned_pages, admitted.tuples)
        if admitted.unmatchable is not None:  # D3
            self.metrics.tuples_answered += admitted.unmatchable.num_rows
            self.metrics.tuples_without_match += admitted.unmatchable.num_rows
            yield from self._delivery.outside(admitted.unmatchable, admitted.unmatchable_numbers)

    def _join(self, run: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        window = self._stream.window
        candidates = self._matching.candidates(window.codes, run)
        pair_rows, pair_slots = self._delivery.pair_rows, self._delivery.pair_slots
        row_bytes = self._delivery.row_bytes(run)
        while filled := candidates.fill(pair_rows, pair_slots):
            for portion in self._delivery.portions(window, pair_slots[:filled], row_bytes, pair_rows[:filled]):
                yield from self._join_pairs(run, pair_rows[portion], pair_slots[portion])

    def _join_pairs(self, run: pa.RecordBatch, rows: _Int32s, slots: _Int32s) -> Iterator[pa.RecordBatch]:
        window = self._stream.window
        if not self._filter.is_trivial:
            tuples = slots
            keep = self._filter.matches(run, pa.array(rows), lambda name: window.store.take_column(name, tuples))
            rows, slots = rows[keep], slots[keep]
        yield from self._delivery.matched(window, slots, run, rows)

    def _expire_chunks(self) -> Iterator[pa.RecordBatch]:
        window = self._stream.window
        while len(self._chunks):
            start, tuples = self._chunks.oldest()
            if self._scanned_pages - start < self.num_pages:
                break
            assert self._scanned_pages - start == self.num_pages, "a chunk meets every page once (Theorem 3.1)"
            self._chunks.pop()
            slots = window.expire(tuples)
            unmatched = slots[~window.matched[slots]]
            self.metrics.tuples_answered += tuples
            self.metrics.tuples_through_disk += tuples
            self.metrics.tuples_without_match += unmatched.size
            yield from self._delivery.unmatched(window, unmatched)

    # --- contract -----------------------------------------------------------------------------------------------

    def _components(self) -> dict[str, int]:
        return {
            "disk buffer": self._plan.disk_bytes,
            "index": self._pages.nbytes,
            "stream buffer": self._stream.buffer_bytes,
            "H_S": self._stream.hash_bytes,
            "queue": self._chunks.nbytes + self._stream.queue_bytes,
            **self._delivery.components(),
        }

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "order": self.config.order}

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        header, tables = self._stream.state()
        header = {**header, "scanned_pages": self._scanned_pages, "chunks": self._chunks.items()}
        return header, {**tables, **self._delivery.state()}

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self._share_out(self._plan, [(start, tuples) for start, tuples in header["chunks"]])
        self._stream.set_state(header, tables)
        self._scanned_pages = header["scanned_pages"]
        self._cycles_before = self._scanned_pages // self.num_pages
        self._delivery.set_state(tables)

    def _release(self) -> None:
        self._disk_buffer.close()
        self._reader.close()
        self._delivery.close()

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.memory().total_bytes <= self.budget_bytes
        chunks = self._chunks.items()
        assert sum(tuples for _, tuples in chunks) == self._stream.tuples_in_window  # Q holds what H holds
        starts = [start for start, _ in chunks]
        assert starts == sorted(starts)
        # Theorem 3.1: a live chunk has met its first pages and still has some to meet.
        assert all(self._scanned_pages - self.num_pages < start < self._scanned_pages for start in starts)
