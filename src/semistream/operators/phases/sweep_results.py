"""Joined rows of a window of stream tuples: cached rows and rows found beside them, in the order of the stream."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.semantics import JoinSpec
from semistream.kernels.pages.in_place import NOT_READY
from semistream.kernels.pages.page_search import expand_ranges
from semistream.operators.cache.hot_rows import HotRows, RowRanges
from semistream.operators.phases.sweep_phase import Found, SweepPhase
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import PairFilter
from semistream.operators.window.stream_buffer import Arrivals
from semistream.state.results import byte_portions
from semistream.storage.reading.raw_pages import JoinedPages, PageShape, RawPages, RowGather
from semistream.storage.reading.resident_pages import PageRows

__all__ = ["SweepResults"]

_NO_ROW = -1

_Int64s = npt.NDArray[np.int64]


class SweepResults:
    """What leaves the join for a window: `begin`, where its tuples have rows, `add` for every portion found, `end`.

    The rows that a tuple matches are neighbours in one page: one in place, a block of the cache, or the rows found. So
    they need not be listed one by one, and mostly there is one row for every tuple.
    """

    def __init__(self, spec: JoinSpec, shape: PageShape, pair_filter: PairFilter, delivery: Delivery) -> None:
        self._spec = spec
        self._shape = shape  # of cached rows and rows found
        self._filter = pair_filter
        self._delivery = delivery
        self._max_rows = delivery.pair_rows.size
        self._max_bytes = delivery.max_bytes
        self._pair_tuple = delivery.pair_slots
        self._pair_row = np.empty(self._max_rows, dtype=np.int64)
        self.unmatched = 0  # tuples of the window that matched nothing, after `end`

    def begin(self, window: Arrivals, disk: SweepPhase, in_place: PageRows) -> None:
        """Begin a window: which of its tuples have their rows in pages that are in memory."""
        self._window = window
        self._disk = disk
        self._window_tuple_bytes = self._delivery.tuple_bytes(window.batch)
        self._small: list[RawPages] = []  # pages beside those in place: cached rows, and rows found
        self._page, self._lows, self._highs = in_place.page, in_place.first, in_place.first + in_place.count
        self._is_in_place = in_place.count > 0
        self._highs[in_place.count == NOT_READY] = self._lows[in_place.count == NOT_READY]
        self._matched = np.zeros(len(window), dtype=np.bool_)
        self._delivered = False

    def add_in_place(self, tuples: _Int64s, found: PageRows) -> None:
        """Let some more tuples have their rows in such pages."""
        here = found.count > 0
        self._place(tuples[here], found.page[here], found.first[here], found.count[here])
        self._is_in_place[tuples[here]] = True

    def add_cached(self, cache: HotRows, tuples: _Int64s, cached: RowRanges) -> None:
        """Let some tuples have cached rows."""
        self._small = cache.pages()
        here = cached.count >= 0
        self._place(tuples[here], cached.block[here], cached.first[here], cached.count[here])

    def ask(self, tuples: _Int64s, key_of: _Int64s) -> None:
        """Tell which tuples wait for rows that `add` brings, and which key each has."""
        self._missing, self._key_of = tuples, key_of
        self._num_small = len(self._small)
        self._pages = JoinedPages(self._shape, self._small) if self._small else None

    def _place(self, tuples: _Int64s, page: _Int64s, first: _Int64s, count: _Int64s) -> None:
        self._page[tuples], self._lows[tuples], self._highs[tuples] = page, first, first + count

    def add(self, found: Found) -> Iterator[pa.RecordBatch]:
        """Deliver tuples beside rows found; with the first portion, also those beside other rows."""
        bounds = np.searchsorted(found.keys, np.arange(self._key_of.max() + 2))
        firsts = bounds[self._key_of]
        self._place(self._missing, np.int64(self._num_small), firsts, bounds[self._key_of + 1] - firsts)
        if not self._only_counts:
            self._pages = JoinedPages(self._shape, [*self._small, self._shape.serialised(found.rows)])
        yield from self._deliver(is_last=found.is_last)

    def end(self) -> Iterator[pa.RecordBatch]:
        """Deliver what is decided once everything was found."""
        if not self._delivered:
            yield from self._deliver(is_last=True)
        self.unmatched = int(self._matched.size - self._matched.sum())
        how = self._spec.how
        if how in ("semi", "anti"):
            yield from self._alone(self._matched if how == "semi" else ~self._matched)
        elif how == "left" and not self._left_is_out:
            yield from self._alone(~self._matched)

    @property
    def _only_counts(self) -> bool:
        """Whether it is enough to know that a tuple has rows, without looking at them."""
        return self._filter.is_trivial and self._spec.how in ("semi", "anti")

    def _deliver(self, *, is_last: bool) -> Iterator[pa.RecordBatch]:
        lows, highs = self._lows, self._highs
        if self._filter.is_trivial:
            self._matched |= highs > lows
        # A tuple that matches nothing leaves among the others when everything was found in one portion.
        self._left_is_out = self._spec.how == "left" and is_last and not self._delivered and self._filter.is_trivial
        self._delivered = True
        if not self._only_counts:
            if self._left_is_out:
                alone = highs == lows
                lows, highs = np.where(alone, _NO_ROW, lows), np.where(alone, _NO_ROW + 1, highs)
            if (highs - lows == 1).all():
                for start in range(0, lows.size, self._max_rows):
                    yield from self._pairs(np.arange(start, min(start + self._max_rows, lows.size)), lows, start)
            else:
                at = offset = 0
                while at < lows.size:
                    at, offset, filled = expand_ranges(lows, highs, at, offset, self._pair_tuple, self._pair_row)
                    yield from self._pairs(self._pair_tuple[:filled].astype(np.int64), self._pair_row[:filled], None)
        # What was delivered is not delivered again with the next portion.
        self._lows = np.zeros_like(self._lows)
        self._highs = np.zeros_like(self._highs)

    def _pairs(self, tuples: _Int64s, rows: _Int64s, start: int | None) -> Iterator[pa.RecordBatch]:
        """Deliver tuples beside rows; from ``start`` on every tuple of the window stands once, if that is given."""
        if start is not None:
            rows = rows[start : start + tuples.size]
        gather = self._gather(tuples, rows)
        row_bytes = gather.row_bytes() + self._tuple_bytes(tuples)
        portions = byte_portions(row_bytes, self._max_bytes)
        for portion in portions:
            master = (gather if len(portions) == 1 else self._gather(tuples[portion], rows[portion])).finish()
            self._disk.require_whole()
            chosen = tuples[portion]
            if start is None:
                stream = self._window.batch.take(pa.array(chosen))
            else:
                stream = self._window.batch.slice(int(chosen[0]), chosen.size)
            if not self._filter.is_trivial:
                keep = self._filter.matches(master, pa.array(np.arange(chosen.size)), stream.column)
                self._matched[chosen[keep]] = True
                if not keep.all():
                    mask = pa.array(keep)
                    chosen, master, stream = chosen[keep], master.filter(mask), stream.filter(mask)
            if self._spec.how in ("inner", "left") and chosen.size:
                yield from self._delivery.beside(stream, master, self._window.number[chosen])

    def _gather(self, tuples: _Int64s, rows: _Int64s) -> RowGather:
        """Gather a row for each tuple, or none where its number is `_NO_ROW`."""
        gather = RowGather(self._shape, rows.size)
        in_place = self._is_in_place[tuples]
        for chosen, is_in_place in ((in_place, True), (~in_place & (rows != _NO_ROW), False)):
            places = np.flatnonzero(chosen)
            if not places.size:
                continue
            pages = self._page[tuples[places]]
            if is_in_place:
                gather.add(self._disk.rows_in_place(pages), np.arange(places.size), rows[places], places)
            else:
                assert self._pages is not None
                gather.add(self._pages, pages, rows[places], places)
        return gather

    def _tuple_bytes(self, tuples: _Int64s) -> int | _Int64s:
        sizes = self._window_tuple_bytes
        return sizes if isinstance(sizes, int) else sizes[tuples]

    def _alone(self, chosen: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        tuples = np.flatnonzero(chosen)
        sizes = np.broadcast_to(self._tuple_bytes(tuples), tuples.shape)
        for portion in byte_portions(sizes, self._max_bytes):
            part = tuples[portion]
            yield from self._delivery.alone(self._window.batch.take(pa.array(part)), self._window.number[part])
