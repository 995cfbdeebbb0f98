"""FIFO multi-map: the papers' H_S and Q in one structure.

Entries are key codes in arrival order. An entry lives in a slot; payload arrays of the caller are indexed
by the same slot. Three linked lists thread the slots: the entries of one key in arrival order, all entries in
arrival order (Q), and the free slots in the order they became free, so that a purely first-in-first-out user
walks through memory sequentially.

::

    directory (open addressing)     slots
    code | first | last             0 1 2 3 4 5 ...
     17  |   1   |  4      ──►      1 ─► 3 ─► 4        entries of key 17; their number stands at the first
     23  |   2   |  2      ──►      2
                                    1 ─► 2 ─► 3 ─► 4   Q

Scanning joins expire from the front of Q; joins that look keys up (S1) take the oldest entry of Q and delete keys
in its middle, and joins with a cache (S0) ask how many entries a key has.

Insert, probe, count, expire and delete are O(1) per entry: a key's list is appended to at its end and
expired from its front. The directory is in `semistream.kernels.hashing.hash_directory`, the lists are in
`semistream.kernels.hashing.multimap_lists`. The capacity can change in place, in time that grows with the capacity
(`semistream.kernels.hashing.multimap_resize`).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from semistream.core.saved_state import Array, SavedState
from semistream.kernels.elastic import ElasticArray, Moves
from semistream.kernels.hashing.hash_directory import (
    TAG_WORD,
    first_entry,
    last_entry,
    line_of,
    lower_lines,
    mix,
    probe_directory,
    rehash,
    tag_of,
)
from semistream.kernels.hashing.multimap_entries import (
    count_by_hash,
    count_entries,
    delete_keys,
    expire_entries,
    fill_keys_with_at_least,
    find_present,
    index_entries,
    insert_entries,
)
from semistream.kernels.hashing.multimap_lists import (
    DISTINCT,
    FREE_FIRST,
    NO_SLOT,
    Q_FIRST,
    Q_LAST,
    SIZE,
    fill_newest,
    fill_oldest,
    fill_pairs,
)
from semistream.kernels.hashing.multimap_resize import add_free_slots, give_up_free_slots, move_entries, redirect

__all__ = ["NO_SLOT", "FifoMultimap"]

_LOAD_FACTOR = 0.5

_Bools = npt.NDArray[np.bool_]
_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


class FifoMultimap:
    """A multi-map of key codes that remembers arrival order, for at most ``capacity`` entries.

    Parameters
    ----------
    max_capacity
        The most that `resize` can ask for; None for a multi-map that is never resized.

    Examples
    --------
    >>> multimap = FifoMultimap(4)
    >>> multimap.insert(np.array([17, 23, 17])).tolist()
    [0, 1, 2]
    >>> rows, firsts = multimap.probe(np.array([99, 17]))
    >>> rows.tolist(), firsts.tolist(), multimap.count(np.array([17])).tolist()
    ([1], [0], [2])
    >>> multimap.expire(2).tolist(), len(multimap)
    ([0, 1], 1)
    """

    def __init__(self, capacity: int, max_capacity: int | None = None) -> None:
        self.capacity = capacity
        self._make_directory(max_capacity)
        self._code = ElasticArray(capacity, np.int64, max_capacity=max_capacity)
        self._key_next = ElasticArray(capacity, np.int32, max_capacity=max_capacity)
        self._key_count = ElasticArray(capacity, np.int32, max_capacity=max_capacity)
        self._q_next = ElasticArray(capacity, np.int32, max_capacity=max_capacity)
        self._q_prev = ElasticArray(capacity, np.int32, max_capacity=max_capacity)
        self._state = np.array([0, 0, -1, -1, -1, -1], dtype=np.int64)
        add_free_slots(self._q_next.values, self._state, 0)

    def _make_directory(self, max_capacity: int | None) -> None:
        lines, max_lines, max_tags = self._lines(self.capacity), None, None
        if max_capacity is not None:
            max_lines = self._lines(max_capacity)
            max_tags = max_lines + TAG_WORD
        self._directory = ElasticArray(lines, np.int64, columns=2, max_capacity=max_lines)
        self._tags = ElasticArray(lines + TAG_WORD, np.uint8, max_capacity=max_tags)
        # Touched here and not in the first insert, so that memory is there or is refused at once.
        self._directory.values.fill(0)
        self._tags.values.fill(0)

    @staticmethod
    def _lines(capacity: int) -> int:
        return int(capacity / _LOAD_FACTOR) + TAG_WORD

    @classmethod
    def hash_bytes_for(cls, capacity: int) -> int:
        """Return the bytes of the hash side (H_S) of a multi-map of this capacity."""
        # A line is two words and a tag; an entry is its code, the next of its key and the key's count.
        return cls._lines(capacity) * (16 + 1) + TAG_WORD + capacity * (8 + 4 + 4)

    @classmethod
    def queue_bytes_for(cls, capacity: int) -> int:
        """Return the bytes of the queue (Q) of a multi-map of this capacity."""
        return capacity * (4 + 4)

    @property
    def hash_bytes(self) -> int:
        arrays = (self._directory, self._tags, self._code, self._key_next, self._key_count)
        return sum(array.values.nbytes for array in arrays)

    @property
    def queue_bytes(self) -> int:
        return self._q_next.values.nbytes + self._q_prev.values.nbytes

    def __len__(self) -> int:
        return int(self._state[SIZE])

    @property
    def num_keys(self) -> int:
        """How many different codes the entries have."""
        return int(self._state[DISTINCT])

    @property
    def free(self) -> int:
        """How many more entries fit."""
        return self.capacity - len(self)

    def insert(self, codes: _Int64s) -> _Int32s:
        """Append entries and return their slots, in the order of ``codes``."""
        assert codes.size <= self.free, "the caller checks that the entries fit"
        slots = np.empty(codes.size, dtype=np.int32)
        insert_entries(
            self._directory.values,
            self._tags.values,
            self._code.values,
            self._key_next.values,
            self._key_count.values,
            self._q_next.values,
            self._q_prev.values,
            self._state,
            codes,
            slots,
        )
        return slots

    def probe(self, codes: _Int64s) -> tuple[_Int32s, _Int32s]:
        """Return the positions in ``codes`` that are present, and the slot of the oldest entry of each."""
        rows = np.empty(codes.size, dtype=np.int32)
        firsts = np.empty(codes.size, dtype=np.int32)
        found = probe_directory(self._directory.values, self._tags.values, codes, rows, firsts)
        return rows[:found], firsts[:found]

    def count(self, codes: _Int64s) -> _Int32s:
        """Return how many entries each code has."""
        out = np.empty(codes.size, dtype=np.int32)
        count_entries(self._directory.values, self._tags.values, self._key_count.values, codes, out)
        return out

    def has(self, codes: _Int64s) -> _Bools:
        """Return which codes have entries."""
        present = np.empty(codes.size, dtype=np.bool_)
        find_present(self._directory.values, codes, present)
        return present

    def pairs(self, rows: _Int32s, cursors: _Int32s, at: int, out_rows: _Int32s, out_slots: _Int32s) -> tuple[int, int]:
        """Fill the output with (row, slot) pairs of the probed ``rows`` and return (new ``at``, how many).

        ``cursors`` starts as the second result of `probe` and is moved on in place, so that the call can be
        repeated until ``at`` reaches the end, however many entries a key has.
        """
        return fill_pairs(self._key_next.values, rows, cursors, at, out_rows, out_slots)

    def oldest(self, count: int) -> _Int32s:
        """Return the slots of the ``count`` oldest entries, oldest first."""
        assert count <= len(self)
        slots = np.empty(count, dtype=np.int32)
        fill_oldest(self._q_next.values, self._state[Q_FIRST], slots)
        return slots

    def newest(self, position: int, count: int) -> _Int32s:
        """Return up to ``count`` slots, newest first, from the one that ``position`` entries are newer than."""
        slots = np.empty(max(0, min(count, len(self) - position)), dtype=np.int32)
        if slots.size:
            fill_newest(self._q_prev.values, self._state[Q_LAST], position, slots)
        return slots

    def keys_with_at_least(self, count: int) -> tuple[_Int64s, _Int32s]:
        """Return the codes with at least so many entries, in ascending order, and how many each has."""
        codes, counts = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        found = fill_keys_with_at_least(self._directory.values, self._key_count.values, count, codes, counts)
        codes, counts = np.empty(found, dtype=np.int64), np.empty(found, dtype=np.int32)
        fill_keys_with_at_least(self._directory.values, self._key_count.values, count, codes, counts)
        # Where a key's line is depends on what came and went: nobody is to go by that.
        order = np.argsort(codes)
        return codes[order], counts[order]

    def entries_by_hash(self, parts: int) -> _Int64s:
        """Return how many entries have keys of each part, by the remainder of their XXH64 hash."""
        counts = np.zeros(parts, dtype=np.int64)
        count_by_hash(self._directory.values, self._key_count.values, counts)
        return counts

    def expire(self, count: int) -> _Int32s:
        """Remove the ``count`` oldest entries and return their slots, oldest first."""
        assert count <= len(self)
        slots = np.empty(count, dtype=np.int32)
        expire_entries(
            self._directory.values,
            self._tags.values,
            self._code.values,
            self._key_next.values,
            self._key_count.values,
            self._q_next.values,
            self._q_prev.values,
            self._state,
            slots,
        )
        return slots

    def delete(self, codes: _Int64s) -> _Int32s:
        """Remove all entries of these keys and return their slots: key by key, oldest first."""
        slots = np.empty(min(int(self.count(codes).sum()), len(self)), dtype=np.int32)
        removed = delete_keys(
            self._directory.values,
            self._tags.values,
            self._key_next.values,
            self._q_next.values,
            self._q_prev.values,
            self._state,
            codes,
            slots,
        )
        return slots[:removed]

    def resize(self, capacity: int) -> Moves:
        """Change the capacity in place; entries stay in order, and those in slots given up move to free ones."""
        assert max(1, len(self)) <= capacity, "the caller checks that the entries fit"
        lines, lines_before = self._lines(capacity), len(self._directory.values)
        grown = capacity > self.capacity
        moves = Moves.of(0) if grown else self._give_up_slots(capacity)
        if not grown:
            lower_lines(self._directory.values, lines)
        self._directory.resize(lines)
        self._tags.resize(lines + TAG_WORD)
        for array in (self._code, self._key_next, self._key_count, self._q_next, self._q_prev):
            array.resize(capacity)
        self._directory.values[lines_before:] = 0
        self._tags.values.fill(0)
        rehash(self._directory.values, self._tags.values, grown)
        add_free_slots(self._q_next.values, self._state, self.capacity)
        self.capacity = capacity
        return moves

    def _give_up_slots(self, capacity: int) -> Moves:
        free = give_up_free_slots(self._q_next.values, self._q_prev.values, self._state, capacity)
        moves = Moves.of(self.capacity - capacity - free)
        if moves.from_slots.size:
            move_entries(
                self._code.values,
                self._key_next.values,
                self._key_count.values,
                self._q_next.values,
                self._q_prev.values,
                self._state,
                capacity,
                moves.from_slots,
                moves.to_slots,
            )
            redirect(self._directory.values, self._key_next.values, capacity)
        return moves

    def state(self) -> SavedState:
        """Return slots and lists as they lie; the directory follows from them."""
        return SavedState(arrays=self._saved_arrays())

    def set_state(self, saved: SavedState) -> None:
        """Go on as the saved multi-map would; this one is new and has its capacity."""
        for name, values in self._saved_arrays().items():
            saved.fill(name, values)
        index_entries(self._directory.values, self._tags.values, self._code.values, self._q_next.values, self._state)

    def _saved_arrays(self) -> dict[str, Array]:
        return {
            "code": self._code.values,
            "key_next": self._key_next.values,
            "key_count": self._key_count.values,
            "q_next": self._q_next.values,
            "q_prev": self._q_prev.values,
            "ends": self._state,
        }

    def __getstate__(self) -> dict[str, Any]:
        """Leave the directory out: it is large, changes everywhere, and follows from the entries."""
        return {name: value for name, value in vars(self).items() if name not in ("_directory", "_tags")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_directory(self._code.max_capacity if self._code.is_elastic else None)
        index_entries(self._directory.values, self._tags.values, self._code.values, self._q_next.values, self._state)

    def codes_at(self, slots: _Int32s) -> _Int64s:
        """Return the code of the entry in each slot."""
        return self._code.values[slots]

    def _check(self) -> None:
        """Assert all invariants; for tests."""
        directory, tags = self._directory.values, self._tags.values
        code, key_next = self._code.values, self._key_next.values
        size = len(self)
        assert self.hash_bytes == self.hash_bytes_for(self.capacity)
        assert self.queue_bytes == self.queue_bytes_for(self.capacity)
        queue = self.oldest(size)
        assert np.unique(queue).size == size
        assert size == 0 or self._q_next.values[queue[-1]] == NO_SLOT
        assert (self._q_prev.values[queue[1:]] == queue[:-1]).all()
        free = []
        slot = int(self._state[FREE_FIRST])
        while slot != NO_SLOT:
            free.append(slot)
            slot = int(self._q_next.values[slot])
        assert len(free) + size == self.capacity
        assert not set(free) & set(queue.tolist())
        occupied = np.flatnonzero(directory[:, 1])
        assert occupied.size == self.num_keys == np.unique(code[queue]).size
        assert np.count_nonzero(tags[: len(directory)]) == occupied.size
        assert (tags[-TAG_WORD:] == tags[:TAG_WORD]).all()
        position = {int(slot): at for at, slot in enumerate(queue)}
        for line in occupied:
            mixed = np.uint64(mix(directory[line, 0]))
            assert line_of(directory, mixed, directory[line, 0]) == line
            assert tags[line] == tag_of(mixed)
            chain = []
            slot = int(first_entry(directory[line, 1]))
            while slot != NO_SLOT:
                chain.append(int(slot))
                assert code[slot] == directory[line, 0]
                slot = int(key_next[slot])
            assert len(chain) == self._key_count.values[chain[0]]
            assert chain[-1] == last_entry(directory[line, 1])
            ranks = [position[slot] for slot in chain]
            assert ranks == sorted(ranks)
