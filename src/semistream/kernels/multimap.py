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
expired from its front. The directory is in `semistream.kernels.hash_directory`.
"""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel
from semistream.kernels.hash_directory import (
    BLOCK,
    TAG_WORD,
    first_entry,
    last_entry,
    line_of,
    mix,
    pack_entries,
    probe_directory,
    remove_line,
    set_tag,
    tag_of,
    touch,
)

__all__ = ["NO_SLOT", "FifoMultimap"]

NO_SLOT = np.int32(-1)

_LOAD_FACTOR = 0.5

# Positions in the state array.
_SIZE, _DISTINCT, _Q_FIRST, _Q_LAST, _FREE_FIRST, _FREE_LAST = range(6)

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]
_Tags = npt.NDArray[np.uint8]


@kernel
def _insert(
    directory: _Int64s,
    tags: _Tags,
    entry_code: _Int64s,
    key_next: _Int32s,
    key_count: _Int32s,
    q_next: _Int32s,
    q_prev: _Int32s,
    state: _Int64s,
    codes: _Int64s,
    slots: _Int32s,
) -> np.int64:
    touched = np.int64(0)
    for start in range(0, codes.size, BLOCK):
        stop = min(start + BLOCK, codes.size)
        for at in range(start, stop):
            touched ^= touch(directory, tags, codes[at])
        for at in range(start, stop):
            code = codes[at]
            slot = state[_FREE_FIRST]
            state[_FREE_FIRST] = q_next[slot]
            entry_code[slot] = code
            key_next[slot] = NO_SLOT
            mixed = mix(code)
            line = line_of(directory, mixed, code)
            packed = directory[line, 1]
            if packed == 0:
                set_tag(tags, directory.shape[0], line, np.uint8(tag_of(mixed)))
                directory[line, 0] = code
                directory[line, 1] = pack_entries(slot, slot)
                key_count[slot] = 1
                state[_DISTINCT] += 1
            else:
                key_next[last_entry(packed)] = np.int32(slot)
                directory[line, 1] = pack_entries(first_entry(packed), slot)
                key_count[first_entry(packed)] += 1
            previous = state[_Q_LAST]
            q_prev[slot] = np.int32(previous)
            q_next[slot] = NO_SLOT
            if previous == NO_SLOT:
                state[_Q_FIRST] = slot
            else:
                q_next[previous] = np.int32(slot)
            state[_Q_LAST] = slot
            slots[at] = np.int32(slot)
    state[_SIZE] += codes.size
    if state[_FREE_FIRST] == NO_SLOT:
        state[_FREE_LAST] = NO_SLOT
    return touched


@kernel
def _release(q_next: _Int32s, state: _Int64s, slot: np.int64) -> None:
    q_next[slot] = NO_SLOT
    if state[_FREE_LAST] == NO_SLOT:
        state[_FREE_FIRST] = slot
    else:
        q_next[state[_FREE_LAST]] = np.int32(slot)
    state[_FREE_LAST] = slot
    state[_SIZE] -= 1


@kernel
def _expire(
    directory: _Int64s,
    tags: _Tags,
    entry_code: _Int64s,
    key_next: _Int32s,
    key_count: _Int32s,
    q_next: _Int32s,
    q_prev: _Int32s,
    state: _Int64s,
    slots: _Int32s,
) -> np.int64:
    touched = np.int64(0)
    for start in range(0, slots.size, BLOCK):
        stop = min(start + BLOCK, slots.size)
        slot = state[_Q_FIRST]
        for at in range(start, stop):
            slots[at] = np.int32(slot)
            touched ^= touch(directory, tags, entry_code[slot])
            slot = np.int64(q_next[slot])
        for at in range(start, stop):
            slot = np.int64(slots[at])
            line = line_of(directory, mix(entry_code[slot]), entry_code[slot])
            packed = directory[line, 1]
            if first_entry(packed) == last_entry(packed):
                remove_line(directory, tags, line)
                state[_DISTINCT] -= 1
            else:
                # The oldest entry of all is the first of its key.
                directory[line, 1] = pack_entries(key_next[slot], last_entry(packed))
                key_count[key_next[slot]] = key_count[slot] - 1
            following = np.int64(q_next[slot])
            state[_Q_FIRST] = following
            if following == NO_SLOT:
                state[_Q_LAST] = NO_SLOT
            else:
                q_prev[following] = NO_SLOT
            _release(q_next, state, slot)
    return touched


@kernel
def _delete_keys(
    directory: _Int64s,
    tags: _Tags,
    key_next: _Int32s,
    q_next: _Int32s,
    q_prev: _Int32s,
    state: _Int64s,
    codes: _Int64s,
    slots: _Int32s,
) -> int:
    removed = 0
    for code in codes:
        line = line_of(directory, mix(code), code)
        packed = directory[line, 1]
        if packed == 0:
            continue
        slot = np.int64(first_entry(packed))
        while slot != NO_SLOT:
            before = np.int64(q_prev[slot])
            after = np.int64(q_next[slot])
            if before == NO_SLOT:
                state[_Q_FIRST] = after
            else:
                q_next[before] = np.int32(after)
            if after == NO_SLOT:
                state[_Q_LAST] = before
            else:
                q_prev[after] = np.int32(before)
            _release(q_next, state, slot)
            slots[removed] = np.int32(slot)
            removed += 1
            slot = np.int64(key_next[slot])
        remove_line(directory, tags, line)
        state[_DISTINCT] -= 1
    return removed


@kernel
def _count(directory: _Int64s, tags: _Tags, key_count: _Int32s, codes: _Int64s, out: _Int32s) -> np.int64:
    touched = np.int64(0)
    for start in range(0, codes.size, BLOCK):
        stop = min(start + BLOCK, codes.size)
        for at in range(start, stop):
            touched ^= touch(directory, tags, codes[at])
        for at in range(start, stop):
            packed = directory[line_of(directory, mix(codes[at]), codes[at]), 1]
            out[at] = 0 if packed == 0 else key_count[first_entry(packed)]
    return touched


@kernel
def _pairs(
    key_next: _Int32s, rows: _Int32s, cursors: _Int32s, at: int, out_rows: _Int32s, out_slots: _Int32s
) -> tuple[int, int]:
    filled = 0
    while at < rows.size and filled < out_rows.size:
        slot = cursors[at]
        while slot != NO_SLOT and filled < out_rows.size:
            out_rows[filled] = rows[at]
            out_slots[filled] = slot
            filled += 1
            slot = key_next[slot]
        cursors[at] = slot
        if slot == NO_SLOT:
            at += 1
    return at, filled


@kernel
def _oldest(q_next: _Int32s, first: np.int64, slots: _Int32s) -> None:
    slot = first
    for at in range(slots.size):
        slots[at] = np.int32(slot)
        slot = np.int64(q_next[slot])


class FifoMultimap:
    """A multi-map of key codes that remembers arrival order, for at most ``capacity`` entries.

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

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        lines = self._lines(capacity)
        # Touched here and not in the first insert, so that memory is there or is refused at once.
        self._directory = np.empty((lines, 2), dtype=np.int64)
        self._directory.fill(0)
        self._tags = np.empty(lines + TAG_WORD, dtype=np.uint8)
        self._tags.fill(0)
        self._code = np.empty(capacity, dtype=np.int64)
        self._key_next = np.empty(capacity, dtype=np.int32)
        self._key_count = np.empty(capacity, dtype=np.int32)
        self._q_next = np.arange(1, capacity + 1, dtype=np.int32)
        self._q_next[-1] = NO_SLOT
        self._q_prev = np.empty(capacity, dtype=np.int32)
        self._state = np.array([0, 0, -1, -1, 0, capacity - 1], dtype=np.int64)

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
        return sum(array.nbytes for array in arrays)

    @property
    def queue_bytes(self) -> int:
        return self._q_next.nbytes + self._q_prev.nbytes

    def __len__(self) -> int:
        return int(self._state[_SIZE])

    @property
    def num_keys(self) -> int:
        """How many different codes the entries have."""
        return int(self._state[_DISTINCT])

    @property
    def free(self) -> int:
        """How many more entries fit."""
        return self.capacity - len(self)

    def insert(self, codes: _Int64s) -> _Int32s:
        """Append entries and return their slots, in the order of ``codes``."""
        assert codes.size <= self.free, "the caller checks that the entries fit"
        slots = np.empty(codes.size, dtype=np.int32)
        _insert(
            self._directory,
            self._tags,
            self._code,
            self._key_next,
            self._key_count,
            self._q_next,
            self._q_prev,
            self._state,
            codes,
            slots,
        )
        return slots

    def probe(self, codes: _Int64s) -> tuple[_Int32s, _Int32s]:
        """Return the positions in ``codes`` that are present, and the slot of the oldest entry of each."""
        rows = np.empty(codes.size, dtype=np.int32)
        firsts = np.empty(codes.size, dtype=np.int32)
        found = probe_directory(self._directory, self._tags, codes, rows, firsts)
        return rows[:found], firsts[:found]

    def count(self, codes: _Int64s) -> _Int32s:
        """Return how many entries each code has."""
        out = np.empty(codes.size, dtype=np.int32)
        _count(self._directory, self._tags, self._key_count, codes, out)
        return out

    def pairs(self, rows: _Int32s, cursors: _Int32s, at: int, out_rows: _Int32s, out_slots: _Int32s) -> tuple[int, int]:
        """Fill the output with (row, slot) pairs of the probed ``rows`` and return (new ``at``, how many).

        ``cursors`` starts as the second result of `probe` and is moved on in place, so that the call can be
        repeated until ``at`` reaches the end, however many entries a key has.
        """
        return _pairs(self._key_next, rows, cursors, at, out_rows, out_slots)

    def oldest(self, count: int) -> _Int32s:
        """Return the slots of the ``count`` oldest entries, oldest first."""
        assert count <= len(self)
        slots = np.empty(count, dtype=np.int32)
        _oldest(self._q_next, self._state[_Q_FIRST], slots)
        return slots

    def expire(self, count: int) -> _Int32s:
        """Remove the ``count`` oldest entries and return their slots, oldest first."""
        assert count <= len(self)
        slots = np.empty(count, dtype=np.int32)
        _expire(
            self._directory,
            self._tags,
            self._code,
            self._key_next,
            self._key_count,
            self._q_next,
            self._q_prev,
            self._state,
            slots,
        )
        return slots

    def delete(self, codes: _Int64s) -> _Int32s:
        """Remove all entries of these keys and return their slots: key by key, oldest first."""
        slots = np.empty(int(self.count(codes).sum()), dtype=np.int32)
        removed = _delete_keys(
            self._directory,
            self._tags,
            self._key_next,
            self._q_next,
            self._q_prev,
            self._state,
            codes,
            slots,
        )
        return slots[:removed]

    def codes_at(self, slots: _Int32s) -> _Int64s:
        """Return the code of the entry in each slot."""
        return self._code[slots]

    def _check(self) -> None:
        """Assert all invariants; for tests."""
        size = len(self)
        queue = self.oldest(size)
        assert np.unique(queue).size == size
        assert size == 0 or self._q_next[queue[-1]] == NO_SLOT
        assert (self._q_prev[queue[1:]] == queue[:-1]).all()
        free = []
        slot = int(self._state[_FREE_FIRST])
        while slot != NO_SLOT:
            free.append(slot)
            slot = int(self._q_next[slot])
        assert len(free) + size == self.capacity
        assert not set(free) & set(queue.tolist())
        occupied = np.flatnonzero(self._directory[:, 1])
        assert occupied.size == self.num_keys == np.unique(self._code[queue]).size
        assert np.count_nonzero(self._tags[: len(self._directory)]) == occupied.size
        assert (self._tags[-TAG_WORD:] == self._tags[:TAG_WORD]).all()
        position = {int(slot): at for at, slot in enumerate(queue)}
        for line in occupied:
            mixed = np.uint64(mix(self._directory[line, 0]))
            assert line_of(self._directory, mixed, self._directory[line, 0]) == line
            assert self._tags[line] == tag_of(mixed)
            chain = []
            slot = int(first_entry(self._directory[line, 1]))
            while slot != NO_SLOT:
                chain.append(int(slot))
                assert self._code[slot] == self._directory[line, 0]
                slot = int(self._key_next[slot])
            assert len(chain) == self._key_count[chain[0]]
            assert chain[-1] == last_entry(self._directory[line, 1])
            ranks = [position[slot] for slot in chain]
            assert ranks == sorted(ranks)
