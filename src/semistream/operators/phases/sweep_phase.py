"""The disk phase of SWEEPJOIN: all keys of a window are looked up in one sweep over the pages that can hold them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.budget import require_at_least
from semistream.core.semantics import JoinSpec
from semistream.kernels.keys.key_codes import NULL_CODE, KeyCodes, bucket_ids
from semistream.kernels.pages.page_search import expand_ranges
from semistream.operators.cache.hot_rows import HotRows
from semistream.operators.join import JoinInputs, Part
from semistream.operators.phases.key_search import KeySearch
from semistream.operators.phases.read_counts import PageReads, ReadCounts
from semistream.operators.window.matching import EqualityMatching, PairFilter, keys_are_valid, require_key_join
from semistream.state.results import byte_portions
from semistream.storage import Io, PageReader
from semistream.storage.reading.raw_pages import PageShape, RawPages, RowGather
from semistream.storage.reading.resident_pages import PageRows, ResidentPages

__all__ = ["Found", "SweepMemory", "SweepPhase"]

# How the budget is shared out.
_STREAM_BUFFER_SHARE = 1 / 32
_LARGER_BUFFER_SHARE, _ENOUGH_BUFFER_BYTES = 1 / 10, 1 << 20  # of a small budget, for the windows below
_DISK_SHARE = 1 / 16
_FOUND_SHARE = 1 / 40
_COPIES_OF_FOUND = 3  # in portions, in one piece, and as a block for the results
_WINDOW_SHARE = 1 / 12
_LARGER_WINDOW_SHARE, _ENOUGH_W = 1 / 3, 1 << 14  # of a small budget: a window of few tuples costs much for each
_TUPLE_BYTES = 160  # of a window: code, number, where its rows lie, sorted and grouped; and its copy of the stream
_FILE_BYTES = 50  # of a window: a tuple may ask for a page of every file
_LEAST_WINDOW_BYTES = 16 << 10
_MOST_DISK_BYTES = 4 << 20
_MOST_W = 1 << 17

_ALIGNMENT = 8
_PAIR_BYTES = 12
_PORTIONS = 4  # rows found are copied in portions of so much of their space

_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SweepMemory:
    """Bytes of each part."""

    disk_bytes: int  # for pages searched together
    found_bytes: int  # for rows that go out together
    window_bytes: int
    stream_buffer_bytes: int
    cache_bytes: int  # with all that it takes beside its blocks
    most_w: int  # tuples of a window

    @staticmethod
    def of(
        budget_bytes: int,
        what: str,
        *,
        index_bytes: int,
        least_disk_bytes: int,
        least_buffer_bytes: int,
        results_bytes_in: Callable[[int], int],  # a budget
        files_per_bucket: int,
        cache_share: float,
        w: int | None,
    ) -> "SweepMemory":
        """Share out a budget; raise `BudgetTooSmall`, naming the least that would do."""
        least_found_bytes = (1 + _COPIES_OF_FOUND) * least_disk_bytes
        least_parts = least_found_bytes + _LEAST_WINDOW_BYTES + least_buffer_bytes + HotRows.least_bytes()

        def fixed_bytes_in(some_bytes: int) -> int:
            return index_bytes + results_bytes_in(some_bytes) + SweepPhase.bytes_beside(some_bytes)

        least = budget_bytes
        while least < (needed := fixed_bytes_in(least) + least_parts):
            least = needed  # of a larger budget more is fixed
        require_at_least(budget_bytes, least, what)
        fixed = fixed_bytes_in(budget_bytes)
        spare = budget_bytes - fixed - least_parts
        disk_bytes = least_disk_bytes + min(int(spare * _DISK_SHARE), _MOST_DISK_BYTES)
        found_bytes = least_disk_bytes + min(int(spare * _FOUND_SHARE), _MOST_DISK_BYTES)
        tuple_bytes = _TUPLE_BYTES + _FILE_BYTES * files_per_bucket
        larger_window_bytes = min(spare * _LARGER_WINDOW_SHARE, _ENOUGH_W * tuple_bytes)
        window_bytes = _LEAST_WINDOW_BYTES + int(max(spare * _WINDOW_SHARE, larger_window_bytes))
        larger_buffer_bytes = min(spare * _LARGER_BUFFER_SHARE, _ENOUGH_BUFFER_BYTES)
        buffer_bytes = least_buffer_bytes + int(max(spare * _STREAM_BUFFER_SHARE, larger_buffer_bytes))
        left = budget_bytes - fixed - disk_bytes - _COPIES_OF_FOUND * found_bytes - window_bytes - buffer_bytes
        most_w = max(1, min(w or _MOST_W, window_bytes // tuple_bytes))
        return SweepMemory(disk_bytes, found_bytes, window_bytes, buffer_bytes, int(left * cache_share), most_w)

    @property
    def rows_found_bytes(self) -> int:
        """What the rows that go out together take at most, with all their copies."""
        return _COPIES_OF_FOUND * self.found_bytes


@dataclass(frozen=True)
class Found:
    """Master rows that a sweep has found, and of which key each is."""

    keys: _Int64s  # positions among the keys that were looked up, ascending
    rows: pa.RecordBatch  # one for each
    is_last: bool  # whether nothing more will be found
    from_disk: npt.NDArray[np.bool_]  # which keys' pages were not in memory, so far


class SweepPhase(Part):
    """Looks up many keys at once in a clustered table, and returns these columns of their rows."""

    def __init__(self, inputs: JoinInputs, columns: list[str], io: Io) -> None:
        table, spec = inputs.table, inputs.spec
        require_key_join(inputs.name, table, spec)
        self._master_keys = spec.master_keys
        self._buckets = table.buckets
        self._pages = table.pages
        self._bucket_pages = [self._pages.for_bucket(bucket) for bucket in range(table.buckets)]
        self.matching = EqualityMatching(spec, key_order=table.key)
        self._key_search = KeySearch(table, self.matching)
        self._reader = PageReader(table, io=io, access="sweep")
        inputs.opened.callback(self._reader.close)
        self._shape = PageShape(table.schema, columns)
        self._resident: ResidentPages | None = None
        if io == "buffered":
            self._resident = ResidentPages.of(self._reader, _delivered_columns(spec), self._key_search.keys)
        if self._resident is not None:
            inputs.opened.callback(self._resident.close)
        self._read_pages = PageReads(self._pages)
        self._reads = ReadCounts(inputs.metrics)
        self._buffer = np.empty(0, dtype=np.uint8)
        self._found_bytes = 0

    @property
    def index_bytes(self) -> int:
        return self._pages.nbytes + (0 if self._resident is None else self._resident.nbytes)

    @property
    def memory_is_short(self) -> bool:
        """Whether many of the pages wanted lately had been evicted from the page cache."""
        return self._resident is None or self._resident.is_short

    @property
    def files_per_bucket(self) -> int:
        """In how many sorted files a key may have rows: one more after every append."""
        return max(len(pages.files) for pages in self._bucket_pages)

    @property
    def least_disk_bytes(self) -> int:
        """The disk buffer holds any page."""
        return int(self._pages.length.max(initial=0)) + _ALIGNMENT

    def use(self, budget_bytes: int, disk_bytes: int, found_bytes: int) -> None:
        """Begin work with a disk buffer for pages searched together, and space for rows that go out together."""
        self._buffer = np.empty(disk_bytes, dtype=np.uint8)
        self._found_bytes = found_bytes
        if self._resident is not None:
            self._resident.use(self._buffer)
        self._pair_access = np.empty(self.bytes_beside(budget_bytes) // _PAIR_BYTES, dtype=np.int32)
        self._pair_row = np.empty(self._pair_access.size, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """The disk buffer and what lies beside it."""
        return self._buffer.nbytes + self._pair_access.nbytes + self._pair_row.nbytes

    @staticmethod
    def bytes_in_place(spec: JoinSpec, pages: int) -> int:
        """Return what `index_bytes` counts beside the directory of so many pages, for those that are in memory."""
        return ResidentPages.bytes_for(PageShape(spec.master_schema, _delivered_columns(spec)), pages)

    @staticmethod
    def bytes_beside(budget_bytes: int) -> int:
        """Return what `nbytes` counts beside the disk buffer."""
        return int(np.clip(budget_bytes // 256 // _PAIR_BYTES, 256, 1 << 16)) * _PAIR_BYTES

    def find_in_place(self, codes: _Int64s, places: _Int64s) -> tuple[ResidentPages | None, list[PageRows], _Int64s]:
        """Find the rows with ``codes[place]`` in pages that are in memory.

        Returns where to copy them from, where they lie, and the places of keys that have to be looked up.
        """
        if self._resident is None:
            return None, [], places
        bucket_of = np.zeros(codes.size, dtype=np.int32)
        if self._buckets > 1:
            bucket_of = bucket_ids(self.matching.coder, KeyCodes(codes, None), self._buckets)
        found, left = self._resident.find(codes, places, bucket_of)
        return self._resident, found, left

    def look_up(self, codes: _Int64s) -> Iterator[Found]:
        """Yield the rows of different keys, ascending, in one portion or more; the last one may be empty."""
        keys, pages = self._key_search.pages_of(codes)
        distinct, which = np.unique(pages, return_inverse=True)
        parts: list[tuple[_Int64s, pa.RecordBatch]] = []
        held_bytes = 0
        from_disk = np.zeros(codes.size, dtype=np.bool_)
        for first, stop in self._portions(distinct):
            low, high = np.searchsorted(which, (first, stop))
            raw, is_in_place = self._read(distinct[first:stop])
            page_of, asking = which[low:high] - first, keys[low:high]
            from_disk[asking[~is_in_place[page_of]]] = True
            for found in self._search(raw, distinct[first:stop], page_of, codes, asking):
                if parts and held_bytes + found[1].nbytes > self._found_bytes:
                    yield self._collected(parts, from_disk, is_last=False)
                    parts, held_bytes = [], 0
                parts.append(found)
                held_bytes += found[1].nbytes
        self._reads.update(self._read_pages)
        yield self._collected(parts, from_disk, is_last=True)

    def _collected(
        self, parts: list[tuple[_Int64s, pa.RecordBatch]], from_disk: npt.NDArray[np.bool_], *, is_last: bool
    ) -> Found:
        if not parts:
            return Found(np.empty(0, dtype=np.int64), RowGather(self._shape, 0).finish(), is_last, from_disk)
        keys = np.concatenate([part[0] for part in parts])
        rows = pa.concat_batches([part[1] for part in parts])
        if (keys[1:] < keys[:-1]).any():  # the table has more than one file
            order = np.argsort(keys, kind="stable")
            keys, rows = keys[order], rows.take(pa.array(order))
        return Found(keys, rows, is_last, from_disk)

    def _portions(self, pages: _Int64s) -> Iterator[tuple[int, int]]:
        """Cut pages so that those of a portion fit the disk buffer together."""
        ends = np.cumsum(self._pages.length[pages])
        first = 0
        while first < pages.size:
            done = int(ends[first - 1]) if first else 0
            stop = int(np.searchsorted(ends, done + self._buffer.size, side="right"))
            assert stop > first, "a single page fits: checked against the budget"
            yield first, stop
            first = stop

    def _read(self, pages: _Int64s) -> tuple[RawPages, npt.NDArray[np.bool_]]:
        """Read pages into the disk buffer, neighbours in one go; tell which were in memory and can be used in place."""
        starts, was_cached = self._reader.read_scattered(pages, self._buffer)
        self._read_pages.read_all(pages)
        self._read_pages.pages_read += pages.size
        self._read_pages.bytes_read += int(self._pages.length[pages].sum())
        raw = self._shape.pages(self._buffer, starts)
        if self._resident is None:
            return raw, np.zeros(pages.size, dtype=np.bool_)
        return raw, was_cached & self._resident.add(pages, raw)

    def _search(
        self, raw: RawPages, pages: _Int64s, page_of: _Int64s, codes: _Int64s, keys: _Int64s
    ) -> Iterator[tuple[_Int64s, pa.RecordBatch]]:
        """Yield rows of ``raw`` with the keys that ask for their pages, in portions, and the key of each."""
        lows, highs = self._key_search.find(raw, pages, page_of, codes[keys])
        at = offset = 0
        while at < lows.size:
            at, offset, filled = expand_ranges(lows, highs, at, offset, self._pair_access, self._pair_row)
            access = self._pair_access[:filled]
            page = page_of[access]
            row = self._pair_row[:filled]
            every = RowGather(self._shape, filled)
            every.add(raw, page, row, np.arange(filled))
            portions = byte_portions(every.row_bytes(), self._found_bytes // _PORTIONS)
            if len(portions) == 1:
                yield self._without_null_keys(keys[access], every.finish(), codes)
                continue
            for portion in portions:
                gather = RowGather(self._shape, portion.stop - portion.start)
                gather.add(raw, page[portion], row[portion], np.arange(portion.stop - portion.start))
                yield self._without_null_keys(keys[access[portion]], gather.finish(), codes)

    def _without_null_keys(self, keys: _Int64s, rows: pa.RecordBatch, codes: _Int64s) -> tuple[_Int64s, pa.RecordBatch]:
        if not (codes[keys] == NULL_CODE).any():
            return keys, rows
        keep = keys_are_valid(rows, self._master_keys, pa.array(np.arange(keys.size)))
        return keys[keep], rows.filter(pa.array(keep))

    def components(self) -> dict[str, int]:
        return {"index": self.index_bytes, "disk buffer": self.nbytes}

    def close(self) -> None:
        if self._resident is not None:
            self._resident.close()
        self._reader.close()


def _delivered_columns(spec: JoinSpec) -> list[str]:
    """Return the master columns that leave the join, or are compared."""
    return list(dict.fromkeys((*spec.master_columns, *PairFilter(spec).master_columns)))
