"""FIFO multi-map: the papers' H_S and Q in one structure.

Entries are key codes in arrival order. An entry lives in a slot; payload arrays of the caller are indexed
by the same slot. Three linked lists thread the slots: the entries of one key in arrival order, all entries in
arrival order (Q), and the free slots in the order they became free, so that a purely first-in-first-out user
walks through memory sequentially.

::

    directory (open addressing)        slots
    code | first | last | count        0 1 2 3 4 5 ...
     17  |   1   |  4   |   3    ──►   1 ─► 3 ─► 4        entries of key 17
     23  |   2   |  2   |   1    ──►   2
                                       1 ─► 2 ─► 3 ─► 4   Q

Insert, probe, count, expire and delete are O(1) per entry: a key's list is appended to at its end and
expired from its front, and the directory is repaired by shifting, without tombstones. A kernel first touches
the directory lines of a whole block of keys, so that the memory system fetches them in parallel, and then works
on lines that are in the cache.
"""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel

__all__ = ["NO_SLOT", "FifoMultimap"]

NO_SLOT = np.int32(-1)

_LOAD_FACTOR = 0.6
_BLOCK = 128
_MIX1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX2 = np.uint64(0xC4CEB9FE1A85EC53)
_LOW32 = np.int64(0xFFFFFFFF)

# Positions in the state array.
_SIZE, _DISTINCT, _Q_FIRST, _Q_LAST, _FREE_FIRST, _FREE_LAST = range(6)

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]


@kernel
def _home(code: np.int64, directory_size: int) -> int:
    mixed = np.uint64(code)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * _MIX1
    mixed = (mixed ^ (mixed >> np.uint64(33))) * _MIX2
    # Multiply-shift maps to [0, directory_size) for any size, not only powers of two.
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(directory_size)) >> np.uint64(32))


@kernel
def _pack(first: int, last: int) -> np.int64:
    # Zero means an empty directory line, hence the shift by one.
    return (np.int64(first + 1) << np.int64(32)) | np.int64(last + 1)


@kernel
def _first(packed: np.int64) -> int:
    return (packed >> np.int64(32)) - 1


@kernel
def _last(packed: np.int64) -> int:
    return (packed & _LOW32) - 1


@kernel
def _line_of(directory: _Int64s, code: np.int64) -> int:
    """Return the line that holds ``code``, or the empty line where it belongs."""
    size = directory.shape[0]
    line = _home(code, size)
    while directory[line, 1] != 0 and directory[line, 0] != code:
        line += 1
        if line == size:
            line = 0
    return line


@kernel
def _touch(directory: _Int64s, codes: _Int64s, start: int, stop: int) -> np.int64:
    size = directory.shape[0]
    seen = np.int64(0)
    for at in range(start, stop):
        seen ^= directory[_home(codes[at], size), 1]
    return seen


@kernel
def _remove_line(directory: _Int64s, counts: _Int32s, line: int) -> None:
    """Empty a line and move later lines of the same run back over the hole."""
    size = directory.shape[0]
    hole = line
    at = line
    while True:
        at += 1
        if at == size:
            at = 0
        if directory[at, 1] == 0:
            break
        home = _home(directory[at, 0], size)
        if (at - home) % size >= (at - hole) % size:
            directory[hole, 0] = directory[at, 0]
            directory[hole, 1] = directory[at, 1]
            counts[hole] = counts[at]
            hole = at
    directory[hole, 1] = 0
    counts[hole] = 0


@kernel
def _insert(
    directory: _Int64s,
    counts: _Int32s,
    entry_code: _Int64s,
    key_next: _Int32s,
    q_next: _Int32s,
    q_prev: _Int32s,
    state: _Int64s,
    codes: _Int64s,
    slots: _Int32s,
) -> np.int64:
    touched = np.int64(0)
    for start in range(0, codes.size, _BLOCK):
        stop = min(start + _BLOCK, codes.size)
        touched ^= _touch(directory, codes, start, stop)
        for at in range(start, stop):
            code = codes[at]
            slot = state[_FREE_FIRST]
            state[_FREE_FIRST] = q_next[slot]
            entry_code[slot] = code
            key_next[slot] = NO_SLOT
            line = _line_of(directory, code)
            packed = directory[line, 1]
            if packed == 0:
                directory[line, 0] = code
                directory[line, 1] = _pack(slot, slot)
                counts[line] = 1
                state[_DISTINCT] += 1
            else:
                key_next[_last(packed)] = np.int32(slot)
                directory[line, 1] = _pack(_first(packed), slot)
                counts[line] += 1
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
def _release(q_next: _Int32s, state: _Int64s, slot: int) -> None:
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
    counts: _Int32s,
    entry_code: _Int64s,
    key_next: _Int32s,
    q_next: _Int32s,
    q_prev: _Int32s,
    state: _Int64s,
    slots: _Int32s,
) -> np.int64:
    size = directory.shape[0]
    touched = np.int64(0)
    for start in range(0, slots.size, _BLOCK):
        stop = min(start + _BLOCK, slots.size)
        slot = state[_Q_FIRST]
        for at in range(start, stop):
            slots[at] = np.int32(slot)
            touched ^= directory[_home(entry_code[slot], size), 1]
            slot = np.int64(q_next[slot])
        for at in range(start, stop):
            slot = np.int64(slots[at])
            line = _line_of(directory, entry_code[slot])
            packed = directory[line, 1]
            if _first(packed) == _last(packed):
                _remove_line(directory, counts, line)
                state[_DISTINCT] -= 1
            else:
                # The oldest entry of all is the first of its key.
                directory[line, 1] = _pack(key_next[slot], _last(packed))
                counts[line] -= 1
            following = np.int64(q_next[slot])
            state[_Q_FIRST] = following
            if following == NO_SLOT:
                state[_Q_LAST] = NO_SLOT
            else:
                q_prev[following] = NO_SLOT
            _release(q_next, state, slot)
    return touched


@kernel
def _delete_key(
    directory: _Int64s,
    counts: _Int32s,
    key_next: _Int32s,
    q_next: _Int32s,
    q_prev: _Int32s,
    state: _Int64s,
    code: np.int64,
    slots: _Int32s,
) -> int:
    line = _line_of(directory, code)
    packed = directory[line, 1]
    if packed == 0:
        return 0
    removed = 0
    slot = np.int64(_first(packed))
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
    _remove_line(directory, counts, line)
    state[_DISTINCT] -= 1
    return removed


@kernel
def _probe(directory: _Int64s, codes: _Int64s, rows: _Int32s, firsts: _Int32s) -> int:
    size = directory.shape[0]
    homes = np.empty(_BLOCK, dtype=np.int64)
    stored = np.empty(_BLOCK, dtype=np.int64)
    packed = np.empty(_BLOCK, dtype=np.int64)
    found = 0
    for start in range(0, codes.size, _BLOCK):
        count = min(_BLOCK, codes.size - start)
        for at in range(count):
            homes[at] = _home(codes[start + at], size)
        for at in range(count):
            stored[at] = directory[homes[at], 0]
            packed[at] = directory[homes[at], 1]
        for at in range(count):
            here = packed[at]
            if here == 0:
                continue
            code = codes[start + at]
            if stored[at] != code:
                line = homes[at] + 1
                if line == size:
                    line = 0
                while directory[line, 1] != 0 and directory[line, 0] != code:
                    line += 1
                    if line == size:
                        line = 0
                here = directory[line, 1]
                if here == 0:
                    continue
            rows[found] = np.int32(start + at)
            firsts[found] = np.int32(_first(here))
            found += 1
    return found


@kernel
def _count(directory: _Int64s, counts: _Int32s, codes: _Int64s, out: _Int32s) -> np.int64:
    touched = np.int64(0)
    for start in range(0, codes.size, _BLOCK):
        stop = min(start + _BLOCK, codes.size)
        touched ^= _touch(directory, codes, start, stop)
        for at in range(start, stop):
            out[at] = counts[_line_of(directory, codes[at])]
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
def _oldest(q_next: _Int32s, first: int, slots: _Int32s) -> None:
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
        self._directory = np.zeros((lines, 2), dtype=np.int64)
        self._counts = np.zeros(lines, dtype=np.int32)
        self._code = np.empty(capacity, dtype=np.int64)
        self._key_next = np.empty(capacity, dtype=np.int32)
        self._q_next = np.arange(1, capacity + 1, dtype=np.int32)
        self._q_next[-1] = NO_SLOT
        self._q_prev = np.empty(capacity, dtype=np.int32)
        self._state = np.array([0, 0, -1, -1, 0, capacity - 1], dtype=np.int64)

    @staticmethod
    def _lines(capacity: int) -> int:
        return int(capacity / _LOAD_FACTOR) + 2

    @classmethod
    def hash_bytes_for(cls, capacity: int) -> int:
        """Return the bytes of the hash side (H_S) of a multi-map of this capacity."""
        return cls._lines(capacity) * 20 + capacity * 12

    @classmethod
    def queue_bytes_for(cls, capacity: int) -> int:
        """Return the bytes of the queue (Q) of a multi-map of this capacity."""
        return capacity * 8

    @property
    def hash_bytes(self) -> int:
        return self._directory.nbytes + self._counts.nbytes + self._code.nbytes + self._key_next.nbytes

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
            self._counts,
            self._code,
            self._key_next,
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
        found = _probe(self._directory, codes, rows, firsts)
        return rows[:found], firsts[:found]

    def count(self, codes: _Int64s) -> _Int32s:
        """Return how many entries each code has."""
        out = np.empty(codes.size, dtype=np.int32)
        _count(self._directory, self._counts, codes, out)
        return out

    def pairs(
        self, rows: _Int32s, cursors: _Int32s, at: int, out_rows: _Int32s, out_slots: _Int32s
    ) -> tuple[int, int]:
        """Fill the output with (row, slot) pairs of the probed ``rows`` and return (new ``at``, how many).

        ``cursors`` starts as the second result of `probe` and is moved on in place, so that the call can be
        repeated until ``at`` reaches the end, however many entries a key has.
        """
        return _pairs(self._key_next, rows, cursors, at, out_rows, out_slots)

    def oldest(self, count: int) -> _Int32s:
        """Return the slots of the ``count`` oldest entries, oldest first."""
        assert count <= len(self)
        slots = np.empty(count, dtype=np.int32)
        _oldest(self._q_next, int(self._state[_Q_FIRST]), slots)
        return slots

    def expire(self, count: int) -> _Int32s:
        """Remove the ``count`` oldest entries and return their slots, oldest first."""
        assert count <= len(self)
        slots = np.empty(count, dtype=np.int32)
        _expire(
            self._directory,
            self._counts,
            self._code,
            self._key_next,
            self._q_next,
            self._q_prev,
            self._state,
            slots,
        )
        return slots

    def delete(self, code: int) -> _Int32s:
        """Remove all entries of one key and return their slots, oldest first."""
        slots = np.empty(int(self.count(np.array([code], dtype=np.int64))[0]), dtype=np.int32)
        removed = _delete_key(
            self._directory,
            self._counts,
            self._key_next,
            self._q_next,
            self._q_prev,
            self._state,
            np.int64(code),
            slots,
        )
        assert removed == slots.size
        return slots

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
        position = {int(slot): at for at, slot in enumerate(queue)}
        for line in occupied:
            assert _line_of(self._directory, self._directory[line, 0]) == line
            chain = []
            slot = _first(self._directory[line, 1])
            while slot != NO_SLOT:
                chain.append(int(slot))
                assert self._code[slot] == self._directory[line, 0]
                slot = int(self._key_next[slot])
            assert len(chain) == self._counts[line]
            assert chain[-1] == _last(self._directory[line, 1])
            ranks = [position[slot] for slot in chain]
            assert ranks == sorted(ranks)
