"""MESHJOIN.

N. Polyzotis, S. Skiadopoulos, P. Vassiliadis, A. Simitsis, N.-E. Frantzell: "Supporting Streaming Updates in an
Active Data Warehouse", ICDE 2007 (S3).

R is scanned over and over, b pages at a time. In every iteration w new stream tuples join the window; a chunk of
stream tuples leaves it when it has met every page of R. One read of b pages is shared by the whole window, so
the disk's cost per stream tuple falls with the memory given to the window. No index, no order, any condition.

::

    stream ─► stream buffer ─ w tuples ─► H_S (hash of tuples)  ◄─ probe ─ disk buffer ◄─ b pages ─ R (cyclic scan)
                                          Q  (chunks, oldest first)            │
                                          └─ the oldest chunk expires          └─► results

    memory M = disk buffer + index of pages + stream buffer + H_S + Q (+ results that wait, for stream order)

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
``H``       ``_window``                   stream tuples, hashed by key (paper's H)
``Q``       ``_chunks`` and the window's  chunks in arrival order
            own queue
==========  ============================  ==============================================

Deviations
----------
D1  A chunk expires at the end of the iteration in which it met its last pages, not at the start of the next one
    (ll. 3-6): unmatched tuples of a left or anti join leave one iteration sooner, and nothing is pending after it.
D2  N_R need not be a multiple of b: the scan's last read is shorter, and a read never crosses a file. Expiry
    counts pages met and not iterations, so b may change in flight: a read is then cut where the oldest chunk completes.
D3  A NULL key matches nothing: such a tuple is answered when it is read and never enters H.
D4  While the stream is silent iterations go on with fewer or no new tuples until every tuple is answered; with
    nothing pending R is not read.
D5  The next b pages are read while the current ones are joined, so the disk buffer is held twice, and once
    more while pages are being decoded.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.budget import require_at_least
from semistream.core.errors import BudgetTooSmall, InvalidArgument, TupleTooLarge
from semistream.core.semantics import JoinSpec
from semistream.operators.chunk_queue import CHUNK_BYTES, ChunkQueue
from semistream.operators.matching import PairFilter, matching_for
from semistream.operators.registry import register
from semistream.operators.reorder import ReorderBuffer
from semistream.operators.results import ResultBuilder
from semistream.operators.step_operator import StepOperator
from semistream.operators.stream_buffer import StreamBuffer
from semistream.operators.stream_window import LiveTuples, StreamWindow, VarlenSizes, WindowShape
from semistream.operators.tuple_store import TupleStore, varlen_bytes
from semistream.storage import MasterTable, PageReader, ReadAhead

__all__ = ["Meshjoin", "MeshjoinConfig"]

# Shares of the budget and bounds around them; none of them affects the result.
_DISK_SHARE = 0.15
_LARGEST_READ_BYTES = 4 << 20
_STREAM_BUFFER_SHARE = 1 / 32
_REORDER_SHARE = 0.25
_LEAST_TUPLES = 64
_PROBE_BYTES_PER_ROW = 24  # the code of a master row, its position and the slot it found
_UNMEASURED_VARLEN_BYTES = 32


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
    order: Literal["any", "stream"] = "any"
    io: Literal["buffered", "drop_behind"] = "buffered"

    def __post_init__(self) -> None:
        for name, value in (("b", self.b), ("w", self.w)):
            if value is not None and value < 1:
                raise InvalidArgument(f"{name}={value} must be at least 1")
        if self.order not in ("any", "stream"):
            raise InvalidArgument(f"order={self.order!r} is unknown: use 'any' or 'stream'")


@dataclass(frozen=True)
class _Plan:
    """How the budget is split for one choice of b (S3 Eq. 1)."""

    b: int
    iterations_per_cycle: int
    read_bytes: int
    disk_bytes: int
    fixed_bytes: int
    stream_buffer_bytes: int
    window_bytes: int


@register("meshjoin", MeshjoinConfig, ("heap", "clustered"), takes_conditions=True)
class Meshjoin(StepOperator):
    """Exact join of a stream with a table by a cyclic scan of the table."""

    def __init__(
        self, table: MasterTable, spec: JoinSpec, budget_bytes: int, config: MeshjoinConfig | None = None
    ) -> None:
        super().__init__(table, spec, budget_bytes)
        self.config = config or MeshjoinConfig()
        TupleStore.require_supported(spec.stream_schema)
        self._ordered = self.config.order == "stream"
        self._pages = table.pages
        self.num_pages = self._pages.num_pages
        self._matching = matching_for(spec)
        self._filter = PairFilter(spec)
        max_rows = int(np.clip(budget_bytes // 256 // 8, 256, 65536))
        max_bytes = int(np.clip(budget_bytes // 16, 1 << 16, 16 << 20))
        self._results = ResultBuilder(spec, max_rows, max_bytes)
        self._reorder = (
            ReorderBuffer(spec.output_schema, int(budget_bytes * _REORDER_SHARE), max_rows)
            if self._ordered
            else None
        )
        self._reader = PageReader(table, columns=spec.needed_master_columns, io=self.config.io)
        self._plan = self._plan_for(self.config.b)
        self._disk_buffer = ReadAhead(self._reader, self._plan.read_bytes)
        self._buffer = StreamBuffer(self._plan.stream_buffer_bytes)
        self._chunks = ChunkQueue(self._plan.iterations_per_cycle + 2)
        self._window: StreamWindow | None = None
        self._varlen = VarlenSizes(0.0, 0)
        self._w = 0
        self._scanned_pages = 0
        self._next_number = 0

    # --- the paper's parameters -------------------------------------------------------------------------

    @property
    def b(self) -> int:
        return self._plan.b

    @property
    def w(self) -> int:
        """Stream tuples read per iteration; 0 until the first tuples were measured."""
        return self._w

    @property
    def iterations_per_cycle(self) -> int:
        return self._plan.iterations_per_cycle

    @property
    def window_capacity_tuples(self) -> int:
        """How many tuples H_S can hold; 0 until the first tuples were measured."""
        return 0 if self._window is None else self._window.shape.capacity

    def _plan_for(self, b: int | None) -> _Plan:
        if b is None:
            b = self._default_b()
        least = self._fixed_bytes(b) + self._least_stream_bytes()
        require_at_least(self.budget_bytes, least, f"meshjoin on {self.table.path} with b={b}")
        iterations = self._iterations(b)
        rest = self.budget_bytes - self._fixed_bytes(b)
        # One chunk of w tuples must fit the buffer, and a window is iterations chunks.
        buffer_bytes = int(rest * max(_STREAM_BUFFER_SHARE, 1 / (iterations + 1)))
        return _Plan(
            b=b,
            iterations_per_cycle=iterations,
            read_bytes=self._pages.max_run_bytes(b),
            disk_bytes=self._disk_bytes(b),
            fixed_bytes=self._fixed_bytes(b),
            stream_buffer_bytes=buffer_bytes,
            window_bytes=rest - buffer_bytes,
        )

    def _default_b(self) -> int:
        b = 1
        while (
            b < self.num_pages
            and self._disk_bytes(2 * b) <= self.budget_bytes * _DISK_SHARE
            and self._pages.max_run_bytes(2 * b) <= _LARGEST_READ_BYTES
        ):
            b *= 2
        return b

    def _iterations(self, b: int) -> int:
        pages_per_file = np.diff(self._pages.file_bounds)
        return int(np.sum(-(-pages_per_file // b)))

    def _disk_bytes(self, b: int) -> int:
        # D5: two reads, each behind the schema, and one more while its pages are decoded.
        read_bytes = self._pages.max_run_bytes(b)
        rows = int(self._pages.rows.max()) * min(b, self.num_pages)
        return 3 * read_bytes + 2 * len(self._reader.header) + rows * _PROBE_BYTES_PER_ROW

    def _fixed_bytes(self, b: int) -> int:
        reorder = self._reorder.capacity_bytes if self._reorder else 0
        chunks = (self._iterations(b) + 2) * CHUNK_BYTES
        return self._disk_bytes(b) + self._pages.nbytes + self._results.nbytes + chunks + reorder

    def _least_stream_bytes(self) -> int:
        varlen = _UNMEASURED_VARLEN_BYTES * TupleStore.num_varlen_columns(self.spec.stream_schema)
        shape = WindowShape(_LEAST_TUPLES, int(varlen * _LEAST_TUPLES * 2))
        return 2 * sum(shape.nbytes(self._matching, self.spec.stream_schema, self._ordered)) + 4096

    def retune(self, *, b: int | None = None, w: int | None = None) -> None:
        """Change b or w between two steps (S3 section 3.3, "dynamic tuning"); results stay exact.

        Raises
        ------
        InvalidArgument
            When the pending tuples do not fit the window that the new b leaves room for.
        """
        self._require_ready("retune")
        MeshjoinConfig(b=b, w=w)
        if b is not None and b != self.b:
            self._change_b(b)
        if self._window is not None:
            self._w = self._chunk_tuples(w if w is not None else self.config.w)

    def _change_b(self, b: int) -> None:
        plan = self._plan_for(b)
        chunks = ChunkQueue(max(plan.iterations_per_cycle, len(self._chunks)) + 2)
        for start, tuples in self._chunks.items():
            chunks.push(start, tuples)
        if self._window is not None:
            live = self._window.live_tuples()
            shape = self._shape_for(self._varlen, plan)
            held = self._window.hash_bytes + live.nbytes
            if shape.capacity < len(self._window) or held > self.budget_bytes:
                raise InvalidArgument(
                    f"b={b} leaves room for {shape.capacity} tuples and {len(self._window)} are pending: "
                    "step or drain before, choose a smaller b, or raise memory="
                )
            self._window = None
            self._window = StreamWindow(self.spec, self._matching, shape, self._ordered)
            self._window.put_back(live)
        if self._buffer.nbytes > plan.stream_buffer_bytes:
            raise InvalidArgument(f"b={b} leaves too small a stream buffer for what waits in it: step before")
        self._buffer.capacity_bytes = plan.stream_buffer_bytes
        self._disk_buffer.close()
        self._disk_buffer = ReadAhead(self._reader, plan.read_bytes)
        self._plan = plan
        self._chunks = chunks

    # --- stream side --------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        return self._buffer.num_rows + (0 if self._window is None else len(self._window))

    def _accept(self, batch: pa.RecordBatch) -> int:
        sizes = varlen_bytes(batch)
        if self._window is None or (sizes[0] > self._ring_bytes and self.pending == 0):
            self._allocate_window(VarlenSizes.of(batch))
        # A tuple whose text exceeds the whole ring waits outside until the window is empty and is shaped anew.
        too_large = np.flatnonzero(sizes > self._ring_bytes)
        if too_large.size:
            batch = batch.slice(0, int(too_large[0]))
        return self._buffer.offer(batch, self._matching.stream_codes(batch)) if batch.num_rows else 0

    @property
    def _ring_bytes(self) -> int:
        assert self._window is not None
        ring_bytes = self._window.store.ring_bytes
        return np.iinfo(np.int64).max if ring_bytes is None else ring_bytes

    def _shape_for(self, varlen: VarlenSizes, plan: _Plan) -> WindowShape:
        fitting = WindowShape.fitting(
            self._matching, self.spec.stream_schema, self._ordered, varlen, plan.window_bytes
        )
        if self.config.w is None or fitting.capacity == 0:
            return fitting
        wanted = min(fitting.capacity, self.config.w * plan.iterations_per_cycle)
        return WindowShape(wanted, max(varlen.largest, fitting.ring_bytes * wanted // fitting.capacity))

    def _allocate_window(self, varlen: VarlenSizes) -> None:
        """Split the window's memory by the tuple sizes that were measured."""
        self._window = None
        shape = self._shape_for(varlen, self._plan)
        if shape.capacity == 0:
            raise TupleTooLarge(
                f"a stream tuple with {varlen.largest} bytes of text does not fit the {self._plan.window_bytes} bytes "
                f"that memory={self.budget_bytes} leaves for stream tuples: raise memory="
            )
        self._varlen = varlen
        self._window = StreamWindow(self.spec, self._matching, shape, self._ordered)
        self._w = self._chunk_tuples(self.config.w)

    def _chunk_tuples(self, w: int | None) -> int:
        capacity = self.window_capacity_tuples
        if w is None:
            return -(-capacity // self.iterations_per_cycle)
        if w > capacity:
            raise InvalidArgument(f"w={w} exceeds the {capacity} tuples that fit the window: lower w or raise memory=")
        return w

    # --- the loop: Fig. 4 -----------------------------------------------------------------------------------

    def _step(self) -> Iterator[pa.RecordBatch]:
        run, pages = self._read_pages()  # l. 2, b pages
        yield from self._admit_chunk()  # l. 2, w tuples; ll. 7-8
        yield from self._join(run)  # ll. 9-10
        self._scanned_pages += pages
        self.metrics.cycles = self._scanned_pages // self.num_pages
        yield from self._expire_chunks()  # ll. 3-6 (D1)
        if self._reorder is not None:
            yield from self._reorder.release(self._oldest_pending_number())

    def _read_pages(self) -> tuple[pa.Table, int]:
        first, count = self._run_at(self._scanned_pages)
        run = self._disk_buffer.read(first, count)
        self._disk_buffer.prefetch(*self._run_at(self._scanned_pages + count))
        self.metrics.pages_read = self._disk_buffer.pages_read
        self.metrics.bytes_read = self._disk_buffer.bytes_read
        return run, count

    def _run_at(self, scanned_pages: int) -> tuple[int, int]:
        """Return (page, count) of the read at this position of the scan (D2)."""
        first = scanned_pages % self.num_pages
        count = self._pages.run_length(first, self.b)
        completes = self._chunks.first_start_after(scanned_pages - self.num_pages)
        if completes is not None:
            count = min(count, completes + self.num_pages - scanned_pages)
        return first, count

    def _admit_chunk(self) -> Iterator[pa.RecordBatch]:
        assert self._window is not None
        if self._chunks.is_full:
            return
        waiting = self._buffer.peek(self._w)
        if waiting is None:
            return
        batch, codes = waiting
        rows = self._window.fitting_rows(varlen_bytes(batch))
        batch, code = batch.slice(0, rows), codes.code[:rows]
        numbers = np.arange(self._next_number, self._next_number + rows, dtype=np.int64)
        self._next_number += rows
        if codes.valid is not None and not (valid := codes.valid[:rows]).all():
            yield from self._answer_null_keys(batch.filter(pa.array(~valid)), numbers[~valid])
            batch, code, numbers = batch.filter(pa.array(valid)), code[valid], numbers[valid]
        self._window.insert(code, batch, numbers)
        if batch.num_rows:
            self._chunks.push(self._scanned_pages, batch.num_rows)
        self._buffer.consume(rows)

    def _answer_null_keys(
        self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        self.metrics.tuples_answered += batch.num_rows
        self.metrics.tuples_without_match += batch.num_rows
        if self.spec.how in ("left", "anti"):
            yield from self._deliver(self._results.stream_only(batch.columns), numbers)

    def _join(self, run: pa.Table) -> Iterator[pa.RecordBatch]:
        window = self._window
        assert window is not None
        candidates = self._matching.candidates(window.codes, run)
        pair_rows, pair_slots = self._results.pair_rows, self._results.pair_slots
        decoded: pa.RecordBatch | None = None
        while filled := candidates.fill(pair_rows, pair_slots):
            rows, slots = pair_rows[:filled], pair_slots[:filled]
            if decoded is None:
                decoded = run.combine_chunks().to_batches()[0]
            if not self._filter.is_trivial:
                rows, slots = self._matching_pairs(decoded, rows, slots)
            if self.spec.how == "semi":
                slots = np.unique(slots[~window.matched[slots]])
            window.matched[slots] = True
            if self.spec.how != "anti":
                yield from self._results_of(rows, slots, decoded)

    def _matching_pairs(
        self, run: pa.RecordBatch, rows: npt.NDArray[np.int32], slots: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        window = self._window
        assert window is not None
        keep = self._filter.matches(
            run, pa.array(rows), lambda name: window.store.take_column(name, slots), rows.size
        )
        return rows[keep], slots[keep]

    def _results_of(
        self, rows: npt.NDArray[np.int32], slots: npt.NDArray[np.int32], run: pa.RecordBatch
    ) -> Iterator[pa.RecordBatch]:
        window = self._window
        assert window is not None
        master_bytes_per_row = run.nbytes // max(1, run.num_rows)
        for portion in self._results.portions(window.store, slots, master_bytes_per_row):
            chosen = slots[portion]
            if self.spec.how == "semi":
                batch = self._results.stream_only(window.store.take(chosen))
            else:
                batch = self._results.joined(window.store, chosen, run, rows[portion])
            yield from self._deliver(batch, window.number[chosen] if self._ordered else None)

    def _expire_chunks(self) -> Iterator[pa.RecordBatch]:
        window = self._window
        assert window is not None
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
            if self.spec.how in ("left", "anti"):
                for portion in self._results.portions(window.store, unmatched, 0):
                    chosen = unmatched[portion]
                    batch = self._results.stream_only(window.store.take(chosen))
                    yield from self._deliver(batch, window.number[chosen] if self._ordered else None)

    def _deliver(
        self, batch: pa.RecordBatch, numbers: npt.NDArray[np.int64] | None
    ) -> Iterator[pa.RecordBatch]:
        if self._reorder is None:
            yield batch
        else:
            assert numbers is not None
            self._reorder.add(numbers, batch)

    def _oldest_pending_number(self) -> int:
        window = self._window
        assert window is not None
        return int(window.number[window.codes.oldest(1)[0]]) if len(window) else self._next_number

    # --- contract ---------------------------------------------------------------------------------------------

    def _components(self) -> dict[str, int]:
        window = self._window
        components = {
            "disk buffer": self._plan.disk_bytes,
            "index": self._pages.nbytes,
            "stream buffer": self._buffer.nbytes,
            "H_S": 0 if window is None else window.hash_bytes,
            "queue": self._chunks.nbytes + (0 if window is None else window.queue_bytes),
            "results": self._results.nbytes,
        }
        if self._reorder is not None:
            components["waiting results"] = self._reorder.nbytes
        return components

    def _state(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        header = {
            "scanned_pages": self._scanned_pages,
            "next_number": self._next_number,
            "chunks": self._chunks.items(),
            "varlen": [self._varlen.mean, self._varlen.largest],
        }
        schema = self.spec.stream_schema
        waiting = self._buffer.peek(self._buffer.num_rows)
        tables = {"buffer": pa.Table.from_batches([] if waiting is None else [waiting[0]], schema)}
        if self._window is not None:
            tables["window"] = self._window.live_tuples().to_table()
        if self._reorder is not None:
            tables["results"] = self._reorder.to_table()
        return header, tables

    def _set_state(self, header: dict[str, Any], tables: dict[str, pa.Table]) -> None:
        self._scanned_pages = header["scanned_pages"]
        self._next_number = header["next_number"]
        self._chunks = ChunkQueue(max(self.iterations_per_cycle, len(header["chunks"])) + 2)
        for start, tuples in header["chunks"]:
            self._chunks.push(start, tuples)
        if "window" in tables:
            # The sizes that shaped the old window, so that the new one has room for what the old one held.
            self._allocate_window(VarlenSizes(*header["varlen"]))
            self._restore_window(LiveTuples.from_table(tables["window"], self.spec.stream_schema))
        for batch in tables["buffer"].to_batches():
            if self._accept(batch) < batch.num_rows:
                raise BudgetTooSmall(
                    f"memory={self.budget_bytes} bytes has no room for the {batch.num_rows} tuples that wait in "
                    "the snapshot: give the memory it was taken with"
                )
        if self._reorder is not None:
            self._reorder.add_table(tables["results"])

    def _restore_window(self, live: LiveTuples) -> None:
        assert self._window is not None
        if self._window.fitting_rows(varlen_bytes(live.batch)) < live.batch.num_rows:
            raise BudgetTooSmall(
                f"memory={self.budget_bytes} bytes holds {self.window_capacity_tuples} tuples, the snapshot has "
                f"{live.batch.num_rows}: give the memory it was taken with"
            )
        self._window.put_back(live)

    def _identity(self) -> dict[str, Any]:
        return {**super()._identity(), "order": self.config.order}

    def _release(self) -> None:
        self._disk_buffer.close()
        self._reader.close()
        if self._reorder is not None:
            self._reorder.close()

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        assert self.memory().total_bytes <= self.budget_bytes
        chunks = self._chunks.items()
        in_window = 0 if self._window is None else len(self._window)
        assert sum(tuples for _, tuples in chunks) == in_window  # Q holds exactly what H holds
        starts = [start for start, _ in chunks]
        assert starts == sorted(starts)
        # Theorem 3.1: a live chunk has met its first pages and still has some to meet.
        assert all(self._scanned_pages - self.num_pages < start <= self._scanned_pages for start in starts)
