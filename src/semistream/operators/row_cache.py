"""H_R: master rows in memory, by key. A key is there with all its rows, or not at all.

A key without any master row can be there too, with none: its tuples are then known to match nothing. "Key" is the
64-bit code here: two keys with one code are cached together, and pairs are told apart when they are joined.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.kernels.key_slots import KeySlots
from semistream.kernels.row_chains import END, chain_rows, free_chains, free_slots, pair_chains, take_free
from semistream.operators.stream_window import VarlenSizes
from semistream.operators.tuple_store import TupleStore

__all__ = ["CacheShape", "RowCache", "RowSets"]

_RING_HEADROOM = 1.25  # text varies in length
_ROW_LINK_BYTES = 4
_KEY_LINK_BYTES = 8

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CacheShape:
    """How many keys and rows a cache holds, and how many bytes of text and binary values."""

    keys: int
    rows: int
    ring_bytes: int

    @classmethod
    def of_rows(cls, rows: int, varlen: VarlenSizes) -> "CacheShape":
        """Return a shape with room for one row per key."""
        ring_bytes = int(varlen.mean * _RING_HEADROOM * rows)
        return cls(rows, rows, max(ring_bytes, varlen.largest) if rows and varlen.largest else 0)

    @classmethod
    def fitting(cls, schema: pa.Schema, varlen: VarlenSizes, cache_bytes: int, key_bytes: float) -> "CacheShape":
        """Return the largest shape in ``cache_bytes``, with ``key_bytes`` more for every key; it may have no row."""
        low, high = 0, max(0, cache_bytes)
        while low < high:
            middle = (low + high + 1) // 2
            if cls.of_rows(middle, varlen).nbytes(schema) + int(middle * key_bytes) <= cache_bytes:
                low = middle
            else:
                high = middle - 1
        return cls.of_rows(low, varlen)

    def nbytes(self, schema: pa.Schema) -> int:
        """Return the bytes of a cache of this shape."""
        keys = KeySlots.bytes_for(self.keys) + self.keys * _KEY_LINK_BYTES
        return keys + self.rows * (TupleStore.fixed_bytes_per_tuple(schema) + _ROW_LINK_BYTES) + self.ring_bytes


class RowCache:
    """Row sets by key, in fixed memory.

    Parameters
    ----------
    schema
        The master columns that are kept.

    Attributes
    ----------
    row_count
        Per entry, how many rows its key has.
    """

    def __init__(self, schema: pa.Schema, shape: CacheShape) -> None:
        self.shape = shape
        self.schema = schema
        self.keys = KeySlots(shape.keys)
        self.rows = TupleStore(schema, shape.rows, shape.ring_bytes)
        self.row_count = np.zeros(shape.keys, dtype=np.int32)
        self._first_row = np.full(shape.keys, END, dtype=np.int32)
        self._next_row = np.arange(1, shape.rows + 1, dtype=np.int32)
        if shape.rows:
            self._next_row[-1] = END
        self._first_free = 0 if shape.rows else int(END)
        self.free_rows = shape.rows
        self._text_is_full = False

    @property
    def free_keys(self) -> int:
        """For about how many more keys there is room, going by the rows that keys have so far."""
        if self._text_is_full:
            return 0
        used_rows = self.shape.rows - self.free_rows
        rows_per_key = max(1.0, used_rows / max(1, len(self.keys)))
        return min(self.keys.free, int(self.free_rows / rows_per_key))

    @property
    def nbytes(self) -> int:
        arrays = (self.row_count, self._first_row, self._next_row)
        return self.keys.nbytes + self.rows.nbytes + sum(array.nbytes for array in arrays)

    def find(self, codes: _Int64s) -> _Int32s:
        """Return the entry of every code, or -1."""
        return self.keys.find(codes)

    def pairs(
        self, tuples: _Int32s, cursors: _Int32s, at: int, out_tuples: _Int32s, out_rows: _Int32s
    ) -> tuple[int, int]:
        """Fill the output with (tuple, row) pairs; see `pair_chains`."""
        return pair_chains(self._next_row, tuples, cursors, at, out_tuples, out_rows)

    def first_rows(self, entries: _Int32s) -> _Int32s:
        """Return where the rows of each entry begin, for `pairs`."""
        return self._first_row[entries]

    def take(self, rows: _Int32s) -> pa.RecordBatch:
        """Return rows by their slots."""
        return pa.RecordBatch.from_arrays(self.rows.take(rows), schema=self.schema)

    def evict(self, entries: _Int32s) -> None:
        """Remove entries with all their rows."""
        self.free(self._first_row[entries])
        self.keys.remove(entries)

    def free(self, first_rows: _Int32s) -> None:
        """Give back the chains of rows that begin here."""
        self._first_free, freed = free_chains(self._next_row, first_rows, self._first_free)
        self.free_rows += freed
        self._text_is_full &= freed == 0

    def put(self, batch: pa.RecordBatch) -> _Int32s:
        """Store rows from the front of ``batch``, as many as fit, and return their slots."""
        batch = batch.slice(0, self.free_rows)
        fitting = self.rows.fitting_rows(batch)
        if fitting < batch.num_rows:
            self.rows.compact(self._live_rows())
            fitting = self.rows.fitting_rows(batch)
            self._text_is_full = fitting < batch.num_rows
        slots = np.empty(fitting, dtype=np.int32)
        self._first_free = take_free(self._next_row, self._first_free, slots)
        self.free_rows -= fitting
        self.rows.put(slots, batch.slice(0, fitting))
        return slots

    def _live_rows(self) -> _Int32s:
        is_free = np.zeros(self.shape.rows, dtype=np.bool_)
        free_slots(self._next_row, self._first_free, is_free)
        return np.flatnonzero(~is_free).astype(np.int32)

    def chain(self, first: _Int32s, count: _Int32s, owners: _Int32s, slots: _Int32s) -> None:
        """Add rows to the chains of their owners."""
        chain_rows(self._next_row, first, count, owners, slots)

    def insert(self, codes: _Int64s, first: _Int32s, count: _Int32s) -> _Int32s:
        """Add entries with the rows of these chains, and return them."""
        entries = self.keys.insert(codes)
        self._first_row[entries] = first
        self.row_count[entries] = count
        return entries

    def _check(self) -> None:
        """Assert the invariants; for tests."""
        self.keys._check()
        entries = self.keys.live_slots()
        chained: list[int] = []
        for entry in entries.tolist():
            row, rows = int(self._first_row[entry]), 0
            while row != END:
                chained.append(row)
                rows += 1
                row = int(self._next_row[row])
            assert rows == self.row_count[entry]
        assert len(set(chained)) == len(chained)
        assert set(chained) <= set(self._live_rows().tolist())


class RowSets:
    """Row sets on their way into a cache: invisible until they are whole, and only those that are.

    Its rows lie in the cache already, so that moving them in copies nothing (S0 calls the space the switching buffer).

    Parameters
    ----------
    codes
        The keys whose rows are being collected, each once.
    """

    def __init__(self, cache: RowCache, codes: _Int64s) -> None:
        self.codes = codes
        self._cache = cache
        self.row_count = np.zeros(codes.size, dtype=np.int32)
        self._first_row = np.full(codes.size, END, dtype=np.int32)
        self._given_up = np.zeros(codes.size, dtype=np.bool_)

    @staticmethod
    def bytes_for(keys: int) -> int:
        """Return the bytes of collecting so many keys, without their rows."""
        return keys * (8 + 4 + 4 + 1)

    def add(
        self, owners: npt.NDArray[np.signedinteger], run: pa.RecordBatch, rows: npt.NDArray[np.signedinteger]
    ) -> None:
        """Take over rows of ``run``; ``owners`` are positions in `codes`. Keys whose rows have no room are given up."""
        wanted = ~self._given_up[owners]
        owners, rows = owners[wanted].astype(np.int32), rows[wanted]
        if not rows.size:
            return
        batch = run.select(self._cache.schema.names).take(pa.array(rows))
        slots = self._cache.put(batch)
        self._cache.chain(self._first_row, self.row_count, owners[: slots.size], slots)
        self.give_up(np.unique(owners[slots.size :]))

    def give_up(self, owners: npt.NDArray[np.signedinteger]) -> None:
        """Leave out these keys."""
        self._given_up[owners] = True
        self._cache.free(self._first_row[owners])
        self._first_row[owners] = END
        self.row_count[owners] = 0

    def move_in(self) -> tuple[_Int32s, npt.NDArray[np.int64]]:
        """Make whole row sets visible; return the new entries, and the position in `codes` of each."""
        whole = np.flatnonzero(~self._given_up)
        whole, without_room = whole[: self._cache.keys.free], whole[self._cache.keys.free :]
        self.give_up(without_room)
        return self._cache.insert(self.codes[whole], self._first_row[whole], self.row_count[whole]), whole

    def abandon(self) -> None:
        """Give all rows back."""
        self.give_up(np.arange(self.codes.size))
