"""Joined rows of a window of stream tuples, wherever their master rows lie, in the order of the stream."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from semistream.core.semantics import JoinSpec
from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.kernels.pages.in_place import NO_PAGE, NOT_IN_PLACE, expand_rows
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import PairFilter
from semistream.operators.window.stream_buffer import Arrivals
from semistream.state.results import byte_portions
from semistream.storage.reading.raw_pages import JoinedPages, PageShape, RawPages, RowGather
from semistream.storage.reading.resident_pages import PageRows

__all__ = ["RowsInMemory", "SweepResults"]


_FILLED = 0.9  # of an output batch, so that rows longer than those before still fit


class _Rows(Protocol):
    """Master rows to be copied."""

    def row_bytes(self) -> Int64s:
        """Return the bytes of each."""

    def finish(self) -> pa.RecordBatch:
        """Return them."""


class _RowSource(Protocol):
    """Pages with master rows."""

    @property
    def row_counts(self) -> Int32s: ...  # of each page
    def gather(self, pages: Int32s, rows: Int32s) -> _Rows:
        """Return rows to be copied; one of `NO_PAGE` is NULL."""


class RowsInMemory:
    """Cached rows and rows found, as pages: one for each block, the last one with what was found."""

    def __init__(self, shape: PageShape, pages: Sequence[RawPages], row_counts: Sequence[int]) -> None:
        self._shape = shape
        self._pages = JoinedPages(shape, pages)
        self.row_counts: Int32s = np.array(row_counts, dtype=np.int32)

    def gather(self, pages: Int32s, rows: Int32s) -> RowGather:
        gather = RowGather(self._shape, pages.size)
        places = np.flatnonzero(pages != NO_PAGE)
        gather.add(self._pages, pages[places].astype(np.int64), rows[places].astype(np.int64), places)
        return gather


class SweepResults:
    """What leaves the join for a window: `begin`, `add` wherever tuples have their rows, `end`."""

    def __init__(self, spec: JoinSpec, pair_filter: PairFilter, delivery: Delivery) -> None:
        self._spec = spec
        self._filter = pair_filter
        self._delivery = delivery
        self._max_rows = delivery.pair_rows.size
        self._max_bytes = delivery.max_bytes
        self._rows_together = self._max_rows  # as many as are likely to leave in one batch
        self._pair_tuple, self._pair_page = delivery.pair_slots, delivery.pair_rows
        self._pair_row = np.empty(self._max_rows, dtype=np.int32)
        self.unmatched = 0  # tuples of the window that matched nothing, after `end`

    def begin(self, window: Arrivals) -> None:
        self._window = window
        self._window_tuple_bytes = self._delivery.tuple_bytes(window.batch)
        self._matched = np.zeros(len(window), dtype=np.bool_)
        self._is_first = True
        self._left_is_out = False

    def add(self, found: PageRows, source: _RowSource, *, is_last: bool) -> Iterator[pa.RecordBatch]:
        """Deliver tuples beside rows of a source, where ``found`` tells of each tuple of the window which these are."""
        if self._filter.is_trivial:
            self._matched |= found.rows > 0
            if self._spec.how in ("semi", "anti"):  # it is enough to know that a tuple has rows
                return
        # A tuple that matches nothing leaves among the others when everything was found at once.
        self._left_is_out = self._spec.how == "left" and self._is_first and is_last and self._filter.is_trivial
        self._is_first = False
        if found.rows.size and int(found.rows.max()) <= 1 and int(found.rows.min()) != NOT_IN_PLACE:
            yield from self._add_single(found, source)
            return
        at = offset = 0
        while at < found.rows.size:
            at, offset, filled = expand_rows(
                *found,
                source.row_counts,
                self._left_is_out,
                at,
                offset,
                self._pair_tuple,
                self._pair_page,
                self._pair_row,
            )
            yield from self._pairs(
                source, self._pair_tuple[:filled].astype(np.int64), self._pair_page[:filled], self._pair_row[:filled]
            )

    def _add_single(self, found: PageRows, source: _RowSource) -> Iterator[pa.RecordBatch]:
        """Deliver tuples with at most one row each."""
        is_matched = found.rows == 1
        tuples = None
        pages, rows = found.page, found.row
        if not is_matched.all():
            if self._left_is_out:
                pages = np.where(is_matched, pages, NO_PAGE)
            else:
                tuples = np.flatnonzero(is_matched)
                pages, rows = pages[tuples], rows[tuples]
        start = 0
        while start < pages.size:
            part = slice(start, min(start + self._rows_together, pages.size))
            start = part.stop
            chosen = np.arange(part.start, part.stop) if tuples is None else tuples[part]
            yield from self._pairs(source, chosen, pages[part], rows[part])

    def _pairs(self, source: _RowSource, tuples: Int64s, pages: Int32s, rows: Int32s) -> Iterator[pa.RecordBatch]:
        """Deliver tuples beside rows, where the filter lets them match."""
        whole = source.gather(pages, rows)
        sizes = whole.row_bytes() + self._tuple_bytes(tuples)
        # What is measured and then divided is looked up twice.
        row_bytes = sizes.sum() / max(1, sizes.size)
        self._rows_together = int(np.clip(_FILLED * self._max_bytes / max(1.0, row_bytes), 1, self._max_rows))
        portions = byte_portions(sizes, self._max_bytes)
        for portion in portions:
            master = (whole if len(portions) == 1 else source.gather(pages[portion], rows[portion])).finish()
            chosen = tuples[portion]
            if chosen[-1] - chosen[0] == chosen.size - 1 and (chosen[1:] > chosen[:-1]).all():
                stream = self._window.batch.slice(int(chosen[0]), chosen.size)
            else:
                stream = self._window.batch.take(pa.array(chosen))
            if not self._filter.is_trivial:
                keep = self._filter.matches(master, pa.array(np.arange(chosen.size)), stream.column)
                self._matched[chosen[keep]] = True
                if not keep.all():
                    mask = pa.array(keep)
                    chosen, master, stream = chosen[keep], master.filter(mask), stream.filter(mask)
            if self._spec.how in ("inner", "left") and chosen.size:
                yield from self._delivery.beside(stream, master, self._window.number[chosen])

    def end(self) -> Iterator[pa.RecordBatch]:
        """Deliver what is decided once everything was found."""
        self.unmatched = int(self._matched.size - self._matched.sum())
        how = self._spec.how
        if how in ("semi", "anti"):
            yield from self._alone(self._matched if how == "semi" else ~self._matched)
        elif how == "left" and not self._left_is_out:
            yield from self._alone(~self._matched)

    def _tuple_bytes(self, tuples: Int64s) -> int | Int64s:
        sizes = self._window_tuple_bytes
        return sizes if isinstance(sizes, int) else sizes[tuples]

    def _alone(self, is_chosen: Bools) -> Iterator[pa.RecordBatch]:
        tuples = np.flatnonzero(is_chosen)
        sizes = np.broadcast_to(self._tuple_bytes(tuples), tuples.shape)
        for portion in byte_portions(sizes, self._max_bytes):
            part = tuples[portion]
            yield from self._delivery.alone(self._window.batch.take(pa.array(part)), self._window.number[part])
