"""A cache of frequent keys in read-only blocks, which learns from hits and misses alike.

Keys are spread over blocks by their hash. Rows of keys worth caching wait until there are enough of them. Then their
blocks are built anew: from the old block and the waiting rows, the most frequent keys that fit. A sketch estimates how
often keys came lately (`semistream.kernels.hashing.frequency_sketch`). A key is cached with all its rows or not at all;
a key without rows is cached, too.

Other processes may share blocks and sketch (`semistream.operators.cache.hot_blocks`). Whatever they hold, the join's
result is the same: a block is used only if it is sound and of the right version of the table.
"""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.saved_state import SavedState, validate_rows
from semistream.kernels.arrays import Bools, Int64s, UInt8s
from semistream.kernels.hashing.frequency_sketch import FrequencySketch
from semistream.kernels.hashing.range_index import group_by_part
from semistream.kernels.pages.page_search import rows_of_ranges
from semistream.operators.cache.hot_blocks import HotBlock, PrivateBlocks, SharedBlocks, index_bytes_for
from semistream.storage.reading.raw_pages import PageShape, RawPages, RowGather

__all__ = ["HotRows", "RowRanges"]

_MOST_BLOCKS = 64
_LEAST_BLOCK_BYTES = 128 << 10
_REPLACED_SHARE = 1 / 32  # of a full cache, replaced after a step by all processes together
_REPLACED_BYTES_PER_KEY = 64  # replaced per recorded key in a full cache: small steps replace little
_GROWING_SHARE = 1 / 8  # a cache with more free space than this still grows
_MOST_REPLACED_BYTES = 64 << 20  # so that no step takes long
_WAITING_SHARE = 1 / 16
_LEAST_WAITING_BYTES = 16 << 10
_BUILDING_COPIES = 3  # rows gathered, their message, the finished block
_WAITING_KEY_BYTES = 32
_MESSAGE_BYTES = 1024  # of a batch's message beside its rows, about
_COUNTERS_PER_KEY = 8
_SAMPLE_PER_KEY = 48  # so that even the rarest cached keys are counted a few times between halvings
_LARGEST_SET_SHARE = 1 / 4  # of a block
_INDEX_BYTES_PER_KEY = index_bytes_for(1000) / 1000


@dataclass(frozen=True)
class RowRanges:
    """The rows of keys: ``count`` rows from ``first`` on in block ``block``; -1 rows for an unknown key."""

    block: npt.NDArray[np.int16]
    first: Int64s
    count: Int64s


@dataclass(frozen=True)
class _Waiting:
    """Row sets that wait for their block: a key's code, its first row and how many there are, in the rows of ``sets``.

    ``places`` are the positions of the keys, ordered by block; those of block b begin at ``bounds[b]``.
    """

    bounds: Int64s
    places: Int64s
    sets: Int64s
    pages: RawPages
    nbytes: int


class HotRows:
    """Cached row sets by key code."""

    def __init__(
        self,
        schema: pa.Schema,
        capacity_bytes: int,  # the most memory of all blocks and the sketch
        row_bytes: float,  # about, for the number of counters
        store: PrivateBlocks | SharedBlocks,
        *,
        processes: int = 1,  # that share the blocks
        owner: int = 0,  # a number for the table, its version and the columns: blocks of another one are not used
    ) -> None:
        self.shape = PageShape(schema)
        self.processes = processes
        self._owner = owner
        self._store = store
        counters = _num_counters(capacity_bytes, row_bytes)
        sample = self.sample_tuples(capacity_bytes, row_bytes)
        self._sketch = FrequencySketch(counters, sample, store.counters(FrequencySketch.bytes_for(counters)))
        self._blocks_bytes, self.num_blocks = _blocks_in(capacity_bytes, row_bytes)
        self._block_bytes = self._blocks_bytes // self.num_blocks
        no_keys = np.empty(0, dtype=np.int64)
        empty = HotBlock.build(no_keys, no_keys, pa.RecordBatch.from_pylist([], schema=schema), owner=owner)
        self._blocks = [HotBlock(empty, self.shape)] * self.num_blocks
        self._waiting: list[_Waiting] = []
        self._most_waiting_bytes = _most_waiting_bytes(self._blocks_bytes, processes)
        self._is_crowded = False
        self._next_block = 0
        self._blocks_to_build = 0
        self._credit_bytes = 0.0  # that may be replaced for the keys recorded so far

    @staticmethod
    def least_bytes() -> int:
        """Return the bytes of a cache without room for a row."""
        return FrequencySketch.bytes_for(1)

    @staticmethod
    def bytes_beside(capacity_bytes: int, processes: int = 1) -> int:
        """Return the bytes beside the capacity in one process: waiting rows, and blocks that are being replaced.

        A block that this process has replaced lives on while another process uses it.
        """
        block = max(capacity_bytes // _MOST_BLOCKS, min(capacity_bytes, _LEAST_BLOCK_BYTES))
        if capacity_bytes <= HotRows.least_bytes():
            return 0
        replaced = max(block, int(capacity_bytes * _REPLACED_SHARE / processes))
        return _most_waiting_bytes(capacity_bytes, processes) + block * _BUILDING_COPIES + replaced

    @staticmethod
    def capacity_in(share_bytes: int, processes: int = 1) -> tuple[int, int]:
        """Return the capacity of a cache that gets ``share_bytes`` of each process, and its bytes beside it."""
        capacity = share_bytes * processes
        while (
            capacity > HotRows.least_bytes()
            and capacity // processes + HotRows.bytes_beside(capacity, processes) > share_bytes
        ):
            capacity = int(capacity * 0.95)
        return max(capacity, HotRows.least_bytes() * processes), HotRows.bytes_beside(capacity, processes)

    @staticmethod
    def keys_in(capacity_bytes: int, row_bytes: float, rows_per_key: float = 1.0) -> int:
        """Return about how many keys with ``rows_per_key`` rows a full cache holds."""
        blocks_bytes, num_blocks = _blocks_in(capacity_bytes, row_bytes)
        set_bytes = rows_per_key * row_bytes + _INDEX_BYTES_PER_KEY
        return num_blocks * max(0, int(_filled_bytes(blocks_bytes // num_blocks) / set_bytes))

    @staticmethod
    def sample_tuples(capacity_bytes: int, row_bytes: float) -> int:
        """Return after how many keys all counts are halved."""
        return _SAMPLE_PER_KEY * _num_counters(capacity_bytes, row_bytes) // _COUNTERS_PER_KEY

    @property
    def nbytes(self) -> int:
        """The bytes of blocks and sketch, which all processes share."""
        return self._sketch.nbytes + self._kept_bytes

    @property
    def _kept_bytes(self) -> int:
        return sum(block.nbytes for block in self._blocks)

    @property
    def waiting_bytes(self) -> int:
        """The bytes of the row sets that wait in this process."""
        return sum(waiting.nbytes for waiting in self._waiting)

    @property
    def num_keys(self) -> int:
        return sum(block.num_keys for block in self._blocks)

    def refresh(self) -> None:
        """Use the blocks that this or another process built since the last time."""
        if self._store.may_have_changed():
            for number in range(self.num_blocks):
                self._refresh(number)

    def _refresh(self, number: int) -> None:
        raw = self._store.changed(number)
        if raw is not None and raw.size <= self._block_bytes and HotBlock.is_sound(raw, self._owner):
            self._blocks[number] = HotBlock(raw, self.shape)

    def find(self, codes: Int64s, valid: Bools | None) -> RowRanges:
        block = np.zeros(codes.size, dtype=np.int16)
        first = np.zeros(codes.size, dtype=np.int64)
        count = np.full(codes.size, -1, dtype=np.int64)
        bounds, places = self._by_block(codes, np.arange(codes.size) if valid is None else np.flatnonzero(valid))
        for number, found in enumerate(self._blocks):
            here = places[bounds[number] : bounds[number + 1]]
            if found.num_keys and here.size:
                found.find(codes, here, first, count)
                block[here] = number
        return RowRanges(block, first, count)

    def _by_block(self, codes: Int64s, places: Int64s) -> tuple[Int64s, Int64s]:
        bounds = np.empty(self.num_blocks + 1, dtype=np.int64)
        grouped = np.empty_like(places)
        group_by_part(codes, places, self.num_blocks, bounds, grouped)
        return bounds, grouped

    def pages(self) -> list[RawPages]:
        """Return the rows of every block."""
        return [block.pages for block in self._blocks]

    def block_rows(self) -> list[int]:
        """Return how many rows each block has."""
        return [block.num_rows for block in self._blocks]

    def record(self, codes: Int64s) -> None:
        """Count keys that came, cached or not."""
        self._sketch.add(codes)
        self._credit_bytes += codes.size * _REPLACED_BYTES_PER_KEY

    def worth_caching(self, codes: Int64s) -> Int64s:
        """Return the positions of keys that come often enough to be cached, best first; none is cached yet."""
        floors = np.array([self._floor(block) for block in self._blocks])
        bounds, places = self._by_block(codes, np.arange(codes.size))
        floor_of = np.empty(codes.size, dtype=np.int64)
        floor_of[places] = np.repeat(floors, np.diff(bounds))
        seen = self._sketch.estimate(codes)
        # Half as often again as the best that was left out, or keys that are nearly equal would swap for ever.
        worth = np.flatnonzero(seen > floor_of + (floor_of + 1) // 2)
        return worth[np.argsort(-seen[worth], kind="stable")]

    def _floor(self, block: HotBlock) -> int:
        """Return the count that a key must exceed to enter the block; the block's own counts have aged since."""
        return block.floor >> min(8, max(0, self._sketch.halvings - block.built_at))

    def offer(self, codes: Int64s, firsts: Int64s, counts: Int64s, rows: pa.RecordBatch) -> None:
        """Let row sets wait for their blocks, from the first on while there is room.

        Key ``codes[i]`` has ``counts[i]`` of the ``rows``, from ``firsts[i]`` on. A frequent key without room returns.
        """
        row_bytes = rows.nbytes / max(1, rows.num_rows)
        small = counts * row_bytes <= self._block_bytes * _LARGEST_SET_SHARE  # larger sets push out too many keys
        codes, firsts, counts = codes[small], firsts[small], counts[small]
        ends = np.cumsum(counts * row_bytes + _WAITING_KEY_BYTES)
        room = self._most_waiting_bytes - self.waiting_bytes
        fitting = int(np.searchsorted(ends, room - _MESSAGE_BYTES, side="right"))
        self._is_crowded |= fitting < codes.size
        while fitting:
            sizes = counts[:fitting]
            pages = self.shape.serialised(rows.take(pa.array(rows_of_ranges(firsts[:fitting], sizes))))
            nbytes = pages.raw.size + fitting * _WAITING_KEY_BYTES
            if nbytes <= room:
                self._wait(codes[:fitting], sizes, pages, nbytes)
                return
            fitting //= 2  # their texts are longer than the average

    def _wait(self, codes: Int64s, counts: Int64s, pages: RawPages, nbytes: int) -> None:
        bounds, places = self._by_block(codes, np.arange(codes.size))
        sets = np.stack([codes, np.cumsum(counts) - counts, counts])
        self._waiting.append(_Waiting(bounds, places, sets, pages, nbytes))

    def learn(self) -> None:
        """Build some blocks anew if enough row sets wait; a round visits every block once."""
        if self._blocks_to_build == 0:
            # A small cache grows every round; a full one changes only for a fair number of new keys.
            if not self._is_crowded and self.waiting_bytes < self._kept_bytes * _WAITING_SHARE:
                return
            self._blocks_to_build = self.num_blocks
        if not self._waiting:
            self._blocks_to_build = 0
            return
        most_bytes = self._most_replaced_bytes()
        replaced_bytes = 0
        while replaced_bytes < most_bytes:
            replaced_bytes += self._blocks[self._next_block].nbytes
            with suppress(OSError):  # a cache that cannot be kept costs time, never rows
                self._build(self._next_block)
            self._next_block = (self._next_block + 1) % self.num_blocks
            self._blocks_to_build -= 1
            if self._blocks_to_build == 0:
                self._waiting, self._is_crowded = [], False
                break
        self._credit_bytes = max(0.0, self._credit_bytes - replaced_bytes)
        self.refresh()

    def _most_replaced_bytes(self) -> int:
        """Return how many bytes of blocks may be replaced now: other processes may keep using the old ones."""
        free_bytes = max(0, self._blocks_bytes - self._kept_bytes)
        at_once = min(int((free_bytes + self._blocks_bytes * _REPLACED_SHARE) / self.processes), _MOST_REPLACED_BYTES)
        if free_bytes > self._blocks_bytes * _GROWING_SHARE:
            return at_once
        at_once = max(self._block_bytes, at_once)
        self._credit_bytes = min(self._credit_bytes, 2.0 * at_once)  # a lull is not made up for
        return 0 if self._credit_bytes < self._block_bytes else min(at_once, int(self._credit_bytes))

    def _build(self, number: int) -> None:
        with self._store.building(number) as may_build:
            if not may_build:
                return
            self._refresh(number)  # another process may just have built it
            sources, sets = self._candidates(number)
            if len(sources) == 1:
                return
            raw = self._assemble(sources, *self._chosen(sources, sets))
            if raw is not None:
                self._store.publish(number, raw)

    def _candidates(self, number: int) -> tuple[list[RawPages], Int64s]:
        """Return the candidates for a block, each key once: its own row sets before the waiting ones.

        The rows of the array are code, first row, number of rows, and which of the sources has them.
        """
        sources, parts = [self._blocks[number].pages], [self._blocks[number].keys()]
        for waiting in self._waiting:
            here = waiting.places[waiting.bounds[number] : waiting.bounds[number + 1]]
            if here.size:
                sources.append(waiting.pages)
                parts.append(np.take(waiting.sets, here, axis=1))
        source_of = np.repeat(np.arange(len(parts)), [part.shape[1] for part in parts])
        sets = np.vstack([np.concatenate(parts, axis=1), source_of])
        _, once = np.unique(sets[0], return_index=True)
        return sources, np.take(sets, once, axis=1)

    def _chosen(self, sources: list[RawPages], sets: Int64s) -> tuple[Int64s, int]:
        """Return the most frequent row sets that fit a block, and the count of the best that does not."""
        codes, _, counts, source_of = sets
        seen = self._sketch.estimate(codes)
        row_bytes = np.array([_row_bytes(source) for source in sources])
        set_bytes = counts * row_bytes[source_of] + _INDEX_BYTES_PER_KEY
        # Among equally frequent keys: small sets first, then those that are cached already.
        order = np.lexsort((source_of, set_bytes, -seen))
        order = order[set_bytes[order] <= self._block_bytes * _LARGEST_SET_SHARE]
        fitting = int(np.searchsorted(np.cumsum(set_bytes[order]), _filled_bytes(self._block_bytes)))
        floor = int(seen[order[fitting]]) if fitting < order.size else 0
        return np.take(sets, order[:fitting], axis=1), floor

    def _assemble(self, sources: list[RawPages], sets: Int64s, floor: int) -> UInt8s | None:
        while sets.size:
            codes, firsts, counts, source_of = sets
            places = np.cumsum(counts) - counts
            rows = RowGather(self.shape, int(counts.sum()))
            for number, source in enumerate(sources):
                here = np.flatnonzero((source_of == number) & (counts > 0))
                taken = rows_of_ranges(firsts[here], counts[here])
                placed = rows_of_ranges(places[here], counts[here])
                rows.add(source, np.zeros(taken.size, dtype=np.int64), taken, placed)
            raw = HotBlock.build(
                codes, counts, rows.finish(), owner=self._owner, floor=floor, built_at=self._sketch.halvings
            )
            if raw.size <= self._block_bytes:
                return raw
            # Sizes are averages: long texts may make a block too large. The least frequent keys stand last.
            keep = int(codes.size * 0.9 * self._block_bytes / raw.size)
            sets = sets[:, :keep]
        return None

    def state(self) -> SavedState:
        """Return blocks, counts and waiting rows; nothing of a shared cache, which outlives this process."""
        if not isinstance(self._store, PrivateBlocks):
            return SavedState()
        saved = SavedState(
            {
                "is_crowded": self._is_crowded,
                "next_block": self._next_block,
                "blocks_to_build": self._blocks_to_build,
                "credit_bytes": self._credit_bytes,
                "blocks": [number for number, block in enumerate(self._blocks) if block.num_keys],
                "waiting": [waiting.nbytes for waiting in self._waiting],
            }
        )
        saved.put_part("sketch", self._sketch.state())
        for number, block in enumerate(self._blocks):
            if block.num_keys:
                saved.put(f"block {number}", block.raw)
        for at, waiting in enumerate(self._waiting):
            saved.put(f"codes {at}", waiting.sets[0])
            saved.put(f"counts {at}", waiting.sets[2])
            saved.put(f"rows {at}", waiting.pages.raw)
        return saved

    def set_state(self, saved: SavedState) -> None:
        if not isinstance(self._store, PrivateBlocks):
            return
        self._is_crowded, self._credit_bytes = saved.flag("is_crowded"), saved.number("credit_bytes")
        self._next_block = saved.whole_number("next_block", 0, self.num_blocks - 1)
        self._blocks_to_build = saved.whole_number("blocks_to_build", 0, self.num_blocks)
        self._sketch.set_state(saved.part("sketch"))
        for number in saved.header["blocks"]:
            saved.require(type(number) is int and 0 <= number < self.num_blocks, f"block {number!r}")
            raw = HotBlock.rebuilt(saved.array(f"block {number}"), self._owner, self.shape.message_schema)
            if raw is not None and raw.size <= self._block_bytes:
                self._blocks[number] = HotBlock(raw, self.shape)
        for at in range(len(saved.header["waiting"])):
            codes, counts = saved.array(f"codes {at}", np.int64), saved.array(f"counts {at}", np.int64)
            message = saved.array(f"rows {at}", np.uint8)
            rows = pa.ipc.read_record_batch(pa.py_buffer(message), self.shape.message_schema)
            validate_rows(rows)
            saved.require(codes.ndim == 1 and codes.shape == counts.shape, f"{counts.size} counts {at}")
            is_sound = ((counts >= 0) & (counts <= rows.num_rows)).all() and counts.sum() == rows.num_rows
            saved.require(is_sound, f"other counts than the {rows.num_rows} rows {at}")
            pages = self.shape.serialised(rows)
            self._wait(codes, counts, pages, pages.raw.size + codes.size * _WAITING_KEY_BYTES)
        saved.require(self.waiting_bytes <= self._most_waiting_bytes, f"{self.waiting_bytes} bytes of waiting rows")

    def _check(self) -> None:
        assert self.waiting_bytes <= self._most_waiting_bytes
        for block in self._blocks:
            assert block.nbytes <= self._block_bytes
            assert HotBlock.is_sound(block.raw, self._owner)


def _num_counters(capacity_bytes: int, row_bytes: float) -> int:
    """Return how many counters there are, for no fewer keys than fit the cache."""
    return _COUNTERS_PER_KEY * (int(capacity_bytes / (row_bytes + 32)) + 1)


def _blocks_in(capacity_bytes: int, row_bytes: float) -> tuple[int, int]:
    """Return the bytes that the sketch leaves for blocks, and how many blocks there are."""
    sketch_bytes = FrequencySketch.bytes_for(_num_counters(capacity_bytes, row_bytes))
    blocks_bytes = max(0, capacity_bytes - sketch_bytes)
    return blocks_bytes, int(np.clip(blocks_bytes // _LEAST_BLOCK_BYTES, 1, _MOST_BLOCKS))


def _filled_bytes(block_bytes: int) -> float:
    """Return the part of a block to fill by estimate: sizes are averages."""
    return block_bytes * 0.97 - 1024


def _most_waiting_bytes(capacity_bytes: int, processes: int) -> int:
    """Return the bytes that may wait in a process; in a small cache a larger share, or no message would fit."""
    return max(int(capacity_bytes * _WAITING_SHARE / processes), min(capacity_bytes // 8, _LEAST_WAITING_BYTES))


def _row_bytes(source: RawPages) -> float:
    return (source.raw.size - int(source.starts[0])) / max(1, source.batch(0).num_rows)
