"""H_R: master rows in memory, by key. A key is cached with all its rows, or not at all.

A key without any master row can be cached, too: its tuples are then known to match nothing. "Key" is the 64-bit code
here: two keys with one code are cached together, and the join compares the keys themselves.
"""

from dataclasses import asdict, astuple, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.saved_state import Array, SavedState
from semistream.kernels.arrays import Int32s, Int64s
from semistream.kernels.elastic import MOST_SLOTS, ElasticArray, Moves
from semistream.kernels.hashing.key_slots import KeySlots
from semistream.kernels.hashing.row_chains import (
    END,
    add_slots,
    chain_rows,
    fill_pairs,
    free_chains,
    free_slots,
    give_up_slots,
    mark_chains,
    take_free,
)
from semistream.state.results import byte_portions
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import VarlenSizes
from semistream.storage import row_bits

__all__ = ["CacheShape", "RowCache", "RowSets"]

_RING_HEADROOM = 1.25  # text varies in length
_ROW_LINK_BYTES = 4
_KEY_LINK_BYTES = 8
_COPIED_BYTES = 64 << 10  # of rows that are copied into the cache at once


@dataclass(frozen=True)
class CacheShape:
    """The most keys, rows, and bytes of text and binary values that a cache holds."""

    keys: int
    rows: int
    ring_bytes: int

    @classmethod
    def of_state(cls, saved: SavedState) -> "CacheShape":
        """Return the shape of a saved cache: no larger than the arrays that it has."""
        shape, rows = SavedState(saved.header["shape"]), saved.part("rows")
        ring_bytes = rows.array("varlen/ring").size if "varlen" in rows.header else 0
        held = cls(saved.array("row_count").size, saved.array("next_row").size, ring_bytes)
        return cls(**{name: shape.whole_number(name, size, size) for name, size in asdict(held).items()})

    @classmethod
    def of_rows(cls, rows: int, varlen: VarlenSizes, rows_per_key: float = 1.0) -> "CacheShape":
        """Return a shape for ``rows`` rows of keys with ``rows_per_key`` rows each."""
        ring_bytes = int(varlen.mean * _RING_HEADROOM * rows)
        return cls(
            keys=int(np.ceil(rows / rows_per_key)),
            rows=rows,
            ring_bytes=max(ring_bytes, varlen.largest) if rows and varlen.largest else 0,
        )

    @classmethod
    def fitting(
        cls, schema: pa.Schema, varlen: VarlenSizes, cache_bytes: int, key_bytes: float, rows_per_key: float = 1.0
    ) -> "CacheShape":
        """Return the largest shape in ``cache_bytes``, with ``key_bytes`` more per key; it may hold no row."""
        low, high = 0, min(max(0, cache_bytes), MOST_SLOTS)
        while low < high:
            middle = (low + high + 1) // 2
            shape = cls.of_rows(middle, varlen, rows_per_key)
            if shape.nbytes(schema) + int(shape.keys * key_bytes) <= cache_bytes:
                low = middle
            else:
                high = middle - 1
        return cls.of_rows(low, varlen, rows_per_key)

    def nbytes(self, schema: pa.Schema) -> int:
        """Return the bytes of a cache of this shape."""
        keys = KeySlots.bytes_for(self.keys) + self.keys * _KEY_LINK_BYTES
        return keys + self.rows * (TupleStore.fixed_bytes_per_tuple(schema) + _ROW_LINK_BYTES) + self.ring_bytes


class RowCache:
    """Row sets by key, in fixed memory, which `resize` changes up to ``max_shape``."""

    def __init__(self, schema: pa.Schema, shape: CacheShape, max_shape: CacheShape | None = None) -> None:
        self.shape = shape
        self.schema = schema
        most_keys, most_rows, most_ring_bytes = (None, None, None) if max_shape is None else astuple(max_shape)
        self.keys = KeySlots(shape.keys, most_keys)
        self.rows = TupleStore(schema, shape.rows, shape.ring_bytes, most_rows, most_ring_bytes)
        self._row_count = ElasticArray(shape.keys, np.int32, max_capacity=most_keys)
        self._first_row = ElasticArray(shape.keys, np.int32, max_capacity=most_keys)
        self._next_row = ElasticArray(shape.rows, np.int32, max_capacity=most_rows)
        self._row_count.values.fill(0)
        self._first_row.values.fill(END)
        self._first_free = add_slots(self._next_row.values, int(END), 0)
        self.free_rows = shape.rows

    @property
    def nbytes(self) -> int:
        arrays = (self._row_count, self._first_row, self._next_row)
        return self.keys.nbytes + self.rows.nbytes + sum(array.values.nbytes for array in arrays)

    @property
    def used_rows(self) -> int:
        return self.shape.rows - self.free_rows

    @property
    def rows_per_key(self) -> float:
        return self.used_rows / len(self.keys) if len(self.keys) else 1.0

    @property
    def free_keys(self) -> int:
        """The room for more keys, if they have as many rows and as much text as the cached ones."""
        room = min(self.keys.free, int(self.free_rows / max(1.0, self.rows_per_key)))
        if self.rows.ring_bytes and len(self.keys):
            text_per_key = self.rows.live_ring_bytes / len(self.keys)
            room = min(room, int(self.rows.room_ring_bytes / max(1.0, text_per_key)))
        return room

    def find(self, codes: Int64s) -> Int32s:
        """Return the entry of every code, or -1."""
        return self.keys.find(codes)

    def row_count(self, entries: Int32s) -> Int32s:
        return self._row_count.values[entries]

    def pairs(self, tuples: Int32s, cursors: Int32s, at: int, out_tuples: Int32s, out_rows: Int32s) -> tuple[int, int]:
        """Fill the output with (tuple, row) pairs; see `FifoMultimap.pairs`."""
        return fill_pairs(self._next_row.values, tuples, cursors, at, out_tuples, out_rows)

    def first_rows(self, entries: Int32s) -> Int32s:
        """Return the first row of each entry, for `pairs`."""
        return self._first_row.values[entries]

    def take(self, rows: Int32s) -> pa.RecordBatch:
        """Return rows by their slots."""
        return pa.RecordBatch.from_arrays(self.rows.take(rows), schema=self.schema)

    def evict(self, entries: Int32s) -> None:
        """Remove entries with all their rows."""
        self.free(self._first_row.values[entries], self._row_count.values[entries])
        self._first_row.values[entries] = END
        self._row_count.values[entries] = 0
        self.keys.remove(entries)

    def free(self, first_rows: Int32s, row_count: Int32s) -> None:
        """Free the chains of rows that begin here."""
        freed = np.empty(int(row_count.sum()), dtype=np.int32)
        self._first_free = free_chains(self._next_row.values, first_rows, self._first_free, freed)
        self.rows.free(freed)
        self.free_rows += freed.size

    def put(self, batch: pa.RecordBatch, owners: Int32s, first: Int32s, count: Int32s) -> int:
        """Store as many rows from the front of ``batch`` as fit, in the chains of their owners; return how many."""
        batch = batch.slice(0, self.free_rows)
        batch = batch.slice(0, self.rows.fitting_rows(batch))
        if self.rows.needs_compaction(batch):
            self.rows.compact(self._live_rows())
        slots = np.empty(batch.num_rows, dtype=np.int32)
        self._first_free = take_free(self._next_row.values, self._first_free, slots)
        self.free_rows -= slots.size
        self.rows.put(slots, batch)
        chain_rows(self._next_row.values, first, count, owners[: slots.size], slots)
        return slots.size

    def _live_rows(self) -> Int32s:
        is_free = np.zeros(self._next_row.values.size, dtype=np.bool_)
        free_slots(self._next_row.values, self._first_free, is_free)
        return np.flatnonzero(~is_free).astype(np.int32)

    def insert(self, codes: Int64s, first: Int32s, count: Int32s) -> Int32s:
        entries = self.keys.insert(codes)
        self._first_row.values[entries] = first
        self._row_count.values[entries] = count
        return entries

    def resize(self, shape: CacheShape) -> Moves:
        """Change the shape in place and return which entries moved; no `RowSets` may be under way."""
        assert shape.rows >= self.used_rows
        assert shape.keys >= len(self.keys)
        self._resize_rows(shape)
        entry_moves = self.keys.resize(shape.keys)
        for array, empty in ((self._first_row, int(END)), (self._row_count, 0)):
            entry_moves.apply(array.values)
            array.resize(shape.keys)
            array.values[self.shape.keys :] = empty
        self.shape = shape
        return entry_moves

    def _resize_rows(self, shape: CacheShape) -> None:
        moves = Moves.of(max(0, min(self.used_rows, self.shape.rows - shape.rows)))
        if shape.rows < self.shape.rows:
            next_row, first_row = self._next_row.values, self._first_row.values
            self._first_free, moved = give_up_slots(
                next_row, first_row, self._first_free, shape.rows, moves.from_slots, moves.to_slots
            )
            moves = Moves(moves.from_slots[:moved], moves.to_slots[:moved])
        self._next_row.resize(shape.rows)
        if shape.rows > self.shape.rows:
            self._first_free = add_slots(self._next_row.values, self._first_free, self.shape.rows)
        self.free_rows += shape.rows - self.shape.rows
        self.rows.resize(shape.rows, shape.ring_bytes, moves, self._live_rows())

    def state(self) -> SavedState:
        """Return everything as it lies; ``CacheShape(**state.header["shape"])`` is the shape to make a cache for."""
        header = {"shape": asdict(self.shape), "first_free": int(self._first_free), "free_rows": self.free_rows}
        saved = SavedState(header, self._saved_arrays())
        saved.put_part("keys", self.keys.state())
        saved.put_part("rows", self.rows.state())
        return saved

    def set_state(self, saved: SavedState) -> None:
        for name, values in self._saved_arrays().items():
            saved.fill(name, values)
        self.keys.set_state(saved.part("keys"))
        self._first_free = saved.whole_number("first_free", int(END), self.shape.rows - 1)
        self.free_rows = saved.whole_number("free_rows", 0, self.shape.rows)
        no_rows = np.empty(0, dtype=np.int32)
        saved.require(self.may_chain(no_rows, no_rows), "rows that are in two row sets, or free and in one")
        is_empty = np.ones(self.shape.keys, dtype=np.bool_)
        is_empty[self.keys.live_slots()] = False
        saved.require((self._first_row.values[is_empty] == END).all(), "rows of free entries")
        self.rows.set_state(saved.part("rows"), self._live_rows())

    def may_chain(self, first_rows: Int32s, row_count: Int32s) -> bool:
        """Return whether these are chains of rows that are neither free nor in a row set of the cache."""
        is_seen, next_row = np.zeros(self.shape.rows, dtype=np.bool_), self._next_row.values
        free = np.array([self._first_free], dtype=np.int32), np.array([self.free_rows], dtype=np.int32)
        cached = self._first_row.values, self._row_count.values
        return all(mark_chains(next_row, *chains, is_seen) for chains in (free, cached, (first_rows, row_count)))

    def _saved_arrays(self) -> dict[str, Array]:
        return {
            "row_count": self._row_count.values,
            "first_row": self._first_row.values,
            "next_row": self._next_row.values,
        }

    def _check(self) -> None:
        self.keys._check()
        entries = self.keys.live_slots()
        chained: list[int] = []
        for entry in entries.tolist():
            row, rows = int(self._first_row.values[entry]), 0
            while row != END:
                chained.append(row)
                rows += 1
                row = int(self._next_row.values[row])
            assert rows == self._row_count.values[entry]
        assert len(set(chained)) == len(chained)
        live = self._live_rows()
        assert live.size == self.used_rows
        assert set(chained) <= set(live.tolist())


class RowSets:
    """Row sets of different keys on their way into a cache: a set becomes visible when it is whole.

    The rows lie in the cache already, so moving a set in copies nothing (S0 calls the space the switching buffer).
    """

    def __init__(self, cache: RowCache, codes: Int64s) -> None:
        self.codes = codes
        self._cache = cache
        self.row_count = np.zeros(codes.size, dtype=np.int32)
        self._first_row = np.full(codes.size, END, dtype=np.int32)
        self.given_up = np.zeros(codes.size, dtype=np.bool_)

    @classmethod
    def from_state(cls, cache: RowCache, saved: SavedState) -> "RowSets":
        codes = saved.array("codes", np.int64)
        sets = cls(cache, codes.reshape(-1))
        saved.fill("row_count", sets.row_count)
        saved.fill("first_row", sets._first_row)
        saved.fill("given_up", sets.given_up)
        is_sound = cache.may_chain(sets._first_row, sets.row_count) and not sets.row_count[sets.given_up].any()
        saved.require(is_sound, "rows on their way into the cache that are there already, or free")
        return sets

    def state(self) -> SavedState:
        arrays: dict[str, Array] = {
            "codes": self.codes,
            "row_count": self.row_count,
            "first_row": self._first_row,
            "given_up": self.given_up,
        }
        return SavedState(arrays=arrays)

    @staticmethod
    def bytes_for(keys: int) -> int:
        """Return the bytes of collecting ``keys`` keys, without their rows."""
        return keys * (8 + 4 + 4 + 1)

    def add(
        self, owners: npt.NDArray[np.signedinteger], run: pa.RecordBatch, rows: npt.NDArray[np.signedinteger]
    ) -> None:
        """Add rows of ``run``; ``owners`` are positions in `codes`. A key whose rows find no room is given up."""
        wanted = np.flatnonzero(~self.given_up[owners])
        if not wanted.size:
            return
        columns = run.select(self._cache.schema.names)
        for portion in self._portions(columns, rows[wanted]):
            self._add_portion(owners[wanted[portion]].astype(np.int32), columns, rows[wanted[portion]])

    def _portions(self, columns: pa.RecordBatch, rows: npt.NDArray[np.signedinteger]) -> list[slice]:
        if TupleStore.num_varlen_columns(self._cache.schema):
            return byte_portions(row_bits(columns)[rows] // 8, _COPIED_BYTES)
        step = max(1, _COPIED_BYTES // max(1, self._cache.rows.fixed_bytes))
        return [slice(start, start + step) for start in range(0, rows.size, step)]

    def _add_portion(self, owners: Int32s, columns: pa.RecordBatch, rows: npt.NDArray[np.signedinteger]) -> None:
        wanted = ~self.given_up[owners]  # a portion before may have given one up
        owners, rows = owners[wanted], rows[wanted]
        batch = columns.take(pa.array(rows[: self._cache.free_rows]))
        stored = self._cache.put(batch, owners, self._first_row, self.row_count)
        self.give_up(np.unique(owners[stored:]))

    def give_up(self, owners: npt.NDArray[np.signedinteger]) -> None:
        """Free the rows of these keys and collect no more of them."""
        self.given_up[owners] = True
        self._cache.free(self._first_row[owners], self.row_count[owners])
        self._first_row[owners] = END
        self.row_count[owners] = 0

    def move_in(self) -> tuple[Int32s, Int64s]:
        """Make the row sets visible; return the new entries, and the position in `codes` of each."""
        whole = np.flatnonzero(~self.given_up)
        whole, without_room = whole[: self._cache.keys.free], whole[self._cache.keys.free :]
        self.give_up(without_room)
        return self._cache.insert(self.codes[whole], self._first_row[whole], self.row_count[whole]), whole

    def abandon(self) -> None:
        self.give_up(np.arange(self.codes.size))
