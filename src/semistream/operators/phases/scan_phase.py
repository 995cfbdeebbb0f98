"""The disk phase of joins that scan R: S3 Fig. 4.

b pages are read and joined with the window; a chunk of stream tuples leaves the window when it has met every page.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import pyarrow as pa

from semistream.core.errors import SnapshotMismatch
from semistream.core.metrics import Metrics
from semistream.core.saved_state import MOST, SavedState
from semistream.operators.join import Part
from semistream.operators.phases.chunk_queue import CHUNK_BYTES, ChunkQueue
from semistream.operators.phases.memory_plan import MemoryPlan
from semistream.operators.phases.read_counts import ReadCounts
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import Matching, PairFilter
from semistream.operators.window.stream_side import StreamSide
from semistream.storage import PageReader, ReadAhead

__all__ = ["ScanPhase"]


class ScanPhase(Part):
    """A cyclic scan of R, met by the tuples of a window chunk by chunk."""

    def __init__(
        self,
        reader: PageReader,
        plan: MemoryPlan,
        stream: StreamSide,
        matching: Matching,
        pair_filter: PairFilter,
        delivery: Delivery,
        metrics: Metrics,
    ) -> None:
        self._reader = reader
        self._pages = reader.pages
        self._plan = plan
        self._stream = stream
        self._matching = matching
        self._filter = pair_filter
        self._delivery = delivery
        self._metrics = metrics
        self._reads = ReadCounts(metrics)
        self._disk_buffer = ReadAhead(reader, plan.read_bytes)
        self._chunks = ChunkQueue(plan.chunks)
        self._max_tuples: int | None = None
        self._spare_bytes = 0
        self.num_pages = self._pages.num_pages
        self.scanned_pages = 0  # from the first scan on
        # `metrics.cycles` counts over the versions of a table, but not what a restored snapshot had scanned.
        self._cycle_offset = -metrics.cycles

    def components(self) -> dict[str, int]:
        return {"disk buffer": self._plan.disk_bytes, "index": self._pages.nbytes, "queue": self._chunks.nbytes}

    @property
    def extra_queue_bytes(self) -> int:
        """What chunks of a smaller b take beyond the plan."""
        return self._chunks.nbytes - self._plan.chunks * CHUNK_BYTES

    @property
    def takes_chunk(self) -> bool:
        """Whether a chunk can begin; False only while chunks of a smaller b are pending."""
        return not self._chunks.is_full

    @property
    def at_scan_start(self) -> bool:
        return self.scanned_pages % self.num_pages == 0

    def begin_chunk(self, tuples: int) -> None:
        """Note that so many tuples entered the window at this position of the scan."""
        if tuples:
            self._chunks.push(self.scanned_pages, tuples)

    def read_pages(self) -> tuple[pa.RecordBatch, int]:
        """Return the rows of the next pages, and the number of pages."""
        first, count = self._run_at(self.scanned_pages)
        run = self._disk_buffer.read(first, count, then=self._run_at(self.scanned_pages + count))
        self._reads.update(self._disk_buffer)
        return run, count

    def _run_at(self, scanned_pages: int) -> tuple[int, int]:
        """Return (page, count) of the read at this position; the next chunk to complete does so at a read's end."""
        first = scanned_pages % self.num_pages
        count = self._pages.run_length(first, self._plan.b)
        start = self._chunks.first_start_after(scanned_pages - self.num_pages)
        if start is not None:
            count = min(count, start + self.num_pages - scanned_pages)
        return first, count

    def join(self, run: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Deliver the pairs of rows of ``run`` and tuples of the window that match."""
        window = self._stream.window
        pair_rows, pair_slots = self._delivery.pair_rows, self._delivery.pair_slots
        row_bytes = self._delivery.row_bytes(run)
        for filled in self._matching.candidates(window.codes, run, pair_rows, pair_slots):
            for portion in self._delivery.portions(window.store, pair_slots[:filled], row_bytes, pair_rows[:filled]):
                rows, slots = pair_rows[portion], pair_slots[portion]
                if not self._filter.is_trivial:
                    keep = self._filter.matches(run, pa.array(rows), partial(window.store.take_column, slots=slots))
                    rows, slots = rows[keep], slots[keep]
                yield from self._delivery.matched(window, slots, run, rows)

    def advance(self, pages: int) -> Iterator[pa.RecordBatch]:
        """Move on behind pages that were joined, and let the chunks go that have met all of R."""
        self.scanned_pages += pages
        self._metrics.cycles = self.scanned_pages // self.num_pages - self._cycle_offset
        window = self._stream.window
        while len(self._chunks):
            start, tuples = self._chunks.oldest()
            if self.scanned_pages - start < self.num_pages:
                break
            assert self.scanned_pages - start == self.num_pages, "a chunk meets every page once (S3, section 3.1)"
            self._chunks.pop()
            yield from self._delivery.leave(window, window.expire(tuples), self._metrics)

    def follow(
        self,
        plan: MemoryPlan,
        max_tuples: int | None,
        chunks: list[tuple[int, int]] | None = None,
        spare_bytes: int = 0,
    ) -> None:
        """Give the stream side its shares of ``plan``, with the pending chunks or these; see `StreamSide.resize`.

        They may hold ``spare_bytes`` more than ``plan`` until enough of them have expired: see `shrink_to_plan`.
        """
        reads_alike = plan.read_bytes == self._plan.read_bytes
        if not reads_alike:
            self._disk_buffer.close()  # first, so that the old and the new shares are never held together
        try:
            queue = ChunkQueue.holding(self._chunks.items() if chunks is None else chunks, plan.chunks)
            # Chunks of a smaller b may be more than a cycle of this plan has.
            extra_bytes = queue.nbytes - plan.chunks * CHUNK_BYTES
            window_bytes = plan.window_bytes - max(0, extra_bytes - spare_bytes)
            self._stream.resize(
                window_bytes,
                buffer_bytes=plan.stream_buffer_bytes,
                max_tuples=max_tuples,
                spare_bytes=max(0, spare_bytes - extra_bytes),
            )
            self._chunks = queue
            self._plan = plan
            self._max_tuples, self._spare_bytes = max_tuples, spare_bytes
        finally:
            if not reads_alike:
                self._disk_buffer = ReadAhead(self._reader, self._plan.read_bytes)
                self._reads = ReadCounts(self._metrics)

    @property
    def is_within_plan(self) -> bool:
        return self._stream.is_within_share and self.extra_queue_bytes <= 0

    def shrink_to_plan(self) -> None:
        """Give back what chunks and tuples held beyond the plan, as far as they have expired."""
        if self.extra_queue_bytes > 0 and len(self._chunks) < self._plan.chunks:
            self.follow(self._plan, self._max_tuples, spare_bytes=self._spare_bytes)
        self._stream.shrink_to_share()

    def state(self, *, exact: bool) -> SavedState:
        saved = SavedState({"scanned_pages": self.scanned_pages, "chunks": self._chunks.items()})
        if exact:
            saved.header["queue_capacity"] = self._chunks.capacity
        return saved

    def set_state(self, saved: SavedState) -> None:
        chunks = [(start, tuples) for start, tuples in saved.header["chunks"]]
        saved.require(all(type(number) is int for chunk in chunks for number in chunk), f"chunks={chunks!r}")
        self.scanned_pages = saved.whole_number("scanned_pages")
        # S3, section 3.1: a live chunk has met its first pages and still has some to meet.
        bounds = [self.scanned_pages - self.num_pages, *(start for start, _ in chunks), self.scanned_pages]
        is_sound = all(low < high for low, high in pairwise(bounds)) and all(0 < tuples < MOST for _, tuples in chunks)
        saved.require(is_sound or not chunks, f"chunks={chunks!r} at page {self.scanned_pages} of the scan")
        if saved.exact:
            most = max(self._plan.chunks, self.num_pages) + 2
            self._chunks = ChunkQueue.holding(chunks, saved.whole_number("queue_capacity", 0, most))
        else:
            self.follow(self._plan, self._max_tuples, chunks, self._spare_bytes)
        # The operator counts its own cycles, not those before it took over.
        self._cycle_offset = self.scanned_pages // self.num_pages - self._metrics.cycles

    def check_state(self) -> None:
        held, expected = sum(tuples for _, tuples in self._chunks.items()), self._stream.tuples_in_window
        if held != expected:
            raise SnapshotMismatch(
                f"the snapshot has chunks of {held} tuples and {expected} in the window: restore one of the same join"
            )

    def close(self) -> None:
        self._disk_buffer.close()
        self._reader.close()

    def check(self) -> None:
        chunks = self._chunks.items()
        assert sum(tuples for _, tuples in chunks) == self._stream.tuples_in_window  # Q holds what H holds
        starts = [start for start, _ in chunks]
        assert starts == sorted(starts)
        # S3, section 3.1: a live chunk has met its first pages and still has some to meet.
        assert all(self.scanned_pages - self.num_pages < start < self.scanned_pages for start in starts)
