"""FIFO multi-map: the papers' H_S and Q in one structure.

Entries are key codes in arrival order. Each entry has a slot, and the caller's payload arrays are indexed by it. Three
linked lists thread the slots: the entries of one key in arrival order, all entries in arrival order (Q), and the free
slots in the order in which they came free. So a caller that only expires walks through memory sequentially.

::

    directory (open addressing)     slots
    code | first | last             0 1 2 3 4 5 ...
     17  |   1   |  4      ──►      1 ─► 3 ─► 4        entries of key 17; their number stands at the first
     23  |   2   |  2      ──►      2
                                    1 ─► 2 ─► 3 ─► 4   Q

Joins that scan expire entries from the front of Q. Joins that look keys up (S1) take the oldest entry of Q and delete
keys from its middle. Joins with a cache (S0) ask how many entries a key has.

Insert, probe, count, expire and delete take O(1) per entry: a key's list grows at its end and expires from its front.
`resize` changes the capacity in place and takes O(capacity). The directory is in
`semistream.kernels.hashing.hash_directory`; the class below calls the kernels that follow it.
"""

from typing import TypeAlias

import numpy as np

from semistream.core.saved_state import Array, SavedState
from semistream.kernels.arrays import Bools, Int32s, Int64s, UInt8s
from semistream.kernels.compile import kernel
from semistream.kernels.elastic import ElasticArray, Moves
from semistream.kernels.hashing.hash_directory import (
    BLOCK,
    TAG_WORD,
    first_entry,
    last_entry,
    line_of,
    lower_lines,
    mix,
    pack_entries,
    probe_directory,
    put_line,
    rehash,
    remove_line,
    tag_of,
    touch,
)
from semistream.kernels.hashing.row_chains import fill_pairs
from semistream.kernels.keys.xxh64 import SEED, hash_word

__all__ = ["FifoMultimap"]

_LOAD_FACTOR = 0.5

_NO_SLOT = np.int32(-1)
# Stands in q_prev of a free slot that is given up; live slots have a slot or _NO_SLOT there.
_GIVEN_UP = np.int32(-2)
# Positions in the state array: counts, and the ends of the lists.
_SIZE, _DISTINCT, _Q_FIRST, _Q_LAST, _FREE_FIRST, _FREE_LAST = range(6)

# Directory, tags, code, key_next, key_count, q_next, q_prev and state: a kernel names those that it uses.
_Arrays: TypeAlias = tuple[Int64s, UInt8s, Int64s, Int32s, Int32s, Int32s, Int32s, Int64s]


class FifoMultimap:
    """A multi-map of key codes in arrival order, of at most ``capacity`` entries; `resize` needs a ``max_capacity``."""

    def __init__(self, capacity: int, max_capacity: int | None = None) -> None:
        self.capacity = capacity
        lines = self._lines(capacity)
        max_lines = None if max_capacity is None else self._lines(max_capacity)
        self._directory = ElasticArray(lines, np.int64, columns=2, max_capacity=max_lines)
        self._tags = ElasticArray(lines + TAG_WORD, np.uint8, max_capacity=max_lines and max_lines + TAG_WORD)
        # Touched here, not in the first insert: missing memory shows at once.
        self._directory.values.fill(0)
        self._tags.values.fill(0)
        self._code = ElasticArray(capacity, np.int64, max_capacity=max_capacity)
        self._key_next = ElasticArray(capacity, np.int32, max_capacity=max_capacity)
        self._key_count = ElasticArray(capacity, np.int32, max_capacity=max_capacity)
        self._q_next = ElasticArray(capacity, np.int32, max_capacity=max_capacity)
        self._q_prev = ElasticArray(capacity, np.int32, max_capacity=max_capacity)
        self._state = np.array([0, 0, -1, -1, -1, -1], dtype=np.int64)
        _add_free_slots(self._q_next.values, self._state, 0)

    @staticmethod
    def _lines(capacity: int) -> int:
        return int(capacity / _LOAD_FACTOR) + TAG_WORD

    @classmethod
    def hash_bytes_for(cls, capacity: int) -> int:
        # A line is two words and a tag; an entry is its code, the next of its key and the key's count.
        return cls._lines(capacity) * (16 + 1) + TAG_WORD + capacity * (8 + 4 + 4)

    @classmethod
    def queue_bytes_for(cls, capacity: int) -> int:
        return capacity * (4 + 4)

    @property
    def hash_bytes(self) -> int:
        arrays = (self._directory, self._tags, self._code, self._key_next, self._key_count)
        return sum(array.values.nbytes for array in arrays)

    @property
    def queue_bytes(self) -> int:
        return self._q_next.values.nbytes + self._q_prev.values.nbytes

    @property
    def _arrays(self) -> _Arrays:
        directory, tags, code, key_next = self._directory, self._tags, self._code, self._key_next
        key_count, q_next, q_prev = self._key_count.values, self._q_next.values, self._q_prev.values
        return directory.values, tags.values, code.values, key_next.values, key_count, q_next, q_prev, self._state

    def __len__(self) -> int:
        return int(self._state[_SIZE])

    @property
    def num_keys(self) -> int:
        return int(self._state[_DISTINCT])

    @property
    def free(self) -> int:
        return self.capacity - len(self)

    def insert(self, codes: Int64s) -> Int32s:
        """Append entries and return their slots, in the order of ``codes``."""
        assert codes.size <= self.free, "the caller checks that the entries fit"
        slots = np.empty(codes.size, dtype=np.int32)
        _insert_entries(*self._arrays, codes, slots)
        return slots

    def probe(self, codes: Int64s) -> tuple[Int32s, Int32s]:
        """Return the positions in ``codes`` that are present, and the slot of the oldest entry of each."""
        rows = np.empty(codes.size, dtype=np.int32)
        firsts = np.empty(codes.size, dtype=np.int32)
        found = probe_directory(self._directory.values, self._tags.values, codes, rows, firsts)
        return rows[:found], firsts[:found]

    def count(self, codes: Int64s) -> Int32s:
        out = np.empty(codes.size, dtype=np.int32)
        _count_entries(self._directory.values, self._tags.values, self._key_count.values, codes, out)
        return out

    def has(self, codes: Int64s) -> Bools:
        present = np.empty(codes.size, dtype=np.bool_)
        _find_present(self._directory.values, codes, present)
        return present

    def pairs(self, rows: Int32s, cursors: Int32s, at: int, out_rows: Int32s, out_slots: Int32s) -> tuple[int, int]:
        """Fill the output with (row, slot) pairs of the probed ``rows`` and return (new ``at``, how many).

        ``cursors`` starts as the second result of `probe` and moves on in place. The caller repeats the call until
        ``at`` reaches the end, however many entries a key has.
        """
        return fill_pairs(self._key_next.values, rows, cursors, at, out_rows, out_slots)

    def oldest(self, count: int) -> Int32s:
        """Return the slots of the ``count`` oldest entries, oldest first."""
        assert count <= len(self)
        slots = np.empty(count, dtype=np.int32)
        _follow(self._q_next.values, self._state[_Q_FIRST], 0, slots)
        return slots

    def newest(self, position: int, count: int) -> Int32s:
        """Return up to ``count`` slots, newest first, from the one that ``position`` entries are newer than."""
        slots = np.empty(max(0, min(count, len(self) - position)), dtype=np.int32)
        if slots.size:
            _follow(self._q_prev.values, self._state[_Q_LAST], position, slots)
        return slots

    def keys_with_at_least(self, count: int) -> tuple[Int64s, Int32s]:
        """Return the codes with at least so many entries, in ascending order, and how many each has."""
        found = 0
        for _ in range(2):  # the first pass counts
            codes, counts = np.empty(found, dtype=np.int64), np.empty(found, dtype=np.int32)
            found = _fill_keys_with_at_least(self._directory.values, self._key_count.values, count, codes, counts)
        # A key's line depends on what came and went: no choice may depend on it.
        order = np.argsort(codes)
        return codes[order], counts[order]

    def entries_by_hash(self, parts: int) -> Int64s:
        """Return the number of entries of each part: a key belongs to part ``XXH64(key) % parts``."""
        counts = np.zeros(parts, dtype=np.int64)
        _count_by_hash(self._directory.values, self._key_count.values, counts)
        return counts

    def expire(self, count: int) -> Int32s:
        """Remove the ``count`` oldest entries and return their slots, oldest first."""
        assert count <= len(self)
        slots = np.empty(count, dtype=np.int32)
        _expire_entries(*self._arrays, slots)
        return slots

    def delete(self, codes: Int64s) -> Int32s:
        """Remove all entries of these keys and return their slots: key by key, oldest first."""
        slots = np.empty(min(int(self.count(codes).sum()), len(self)), dtype=np.int32)
        return slots[: _delete_keys(*self._arrays, codes, slots)]

    def resize(self, capacity: int) -> Moves:
        """Change the capacity in place. Entries keep their order; those in slots given up move to free slots."""
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
        _add_free_slots(self._q_next.values, self._state, self.capacity)
        self.capacity = capacity
        return moves

    def _give_up_slots(self, capacity: int) -> Moves:
        free = _give_up_free_slots(self._q_next.values, self._q_prev.values, self._state, capacity)
        moves = Moves.of(self.capacity - capacity - free)
        if moves.from_slots.size:
            _move_entries(*self._arrays, capacity, moves.from_slots, moves.to_slots)
            _redirect(self._directory.values, self._key_next.values, capacity)
        return moves

    def state(self) -> SavedState:
        """Return slots and lists as they lie; the directory follows from them."""
        return SavedState(arrays=self._saved_arrays())

    def set_state(self, saved: SavedState) -> None:
        """Take slots and their order over; all else follows from them."""
        for name, values in self._saved_arrays().items():
            saved.fill(name, values)
        is_sound = _index_entries(*self._arrays, np.zeros(self.capacity, dtype=np.bool_))
        saved.require(is_sound, "entries and free slots that are not all slots, each once")

    def _saved_arrays(self) -> dict[str, Array]:
        return {
            "code": self._code.values,
            "key_next": self._key_next.values,
            "key_count": self._key_count.values,
            "q_next": self._q_next.values,
            "q_prev": self._q_prev.values,
            "ends": self._state,
        }

    def codes_at(self, slots: Int32s) -> Int64s:
        return self._code.values[slots]

    def _check(self) -> None:
        directory, tags = self._directory.values, self._tags.values
        code, key_next = self._code.values, self._key_next.values
        size = len(self)
        assert self.hash_bytes == self.hash_bytes_for(self.capacity)
        assert self.queue_bytes == self.queue_bytes_for(self.capacity)
        queue = self.oldest(size)
        assert np.unique(queue).size == size
        assert size == 0 or self._q_next.values[queue[-1]] == _NO_SLOT
        assert (self._q_prev.values[queue[1:]] == queue[:-1]).all()
        free = _slots_of_list(self._q_next.values, self._state[_FREE_FIRST])
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
            chain = _slots_of_list(key_next, first_entry(directory[line, 1]))
            assert (code[chain] == directory[line, 0]).all()
            assert len(chain) == self._key_count.values[chain[0]]
            assert chain[-1] == last_entry(directory[line, 1])
            ranks = [position[slot] for slot in chain]
            assert ranks == sorted(ranks)


def _slots_of_list(links: Int32s, first: np.int64) -> list[int]:
    slots, slot = [], int(first)
    while slot != _NO_SLOT:
        slots.append(slot)
        slot = int(links[slot])
    return slots


@kernel
def _insert_entries(
    directory: Int64s,
    tags: UInt8s,
    entry_code: Int64s,
    key_next: Int32s,
    key_count: Int32s,
    q_next: Int32s,
    q_prev: Int32s,
    state: Int64s,
    codes: Int64s,
    slots: Int32s,
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
            key_next[slot] = _NO_SLOT
            line = line_of(directory, mix(code), code)
            packed = directory[line, 1]
            if packed == 0:
                put_line(directory, tags, line, code, pack_entries(slot, slot))
                key_count[slot] = 1
                state[_DISTINCT] += 1
            else:
                key_next[last_entry(packed)] = np.int32(slot)
                directory[line, 1] = pack_entries(first_entry(packed), slot)
                key_count[first_entry(packed)] += 1
            previous = state[_Q_LAST]
            q_prev[slot] = np.int32(previous)
            q_next[slot] = _NO_SLOT
            if previous == _NO_SLOT:
                state[_Q_FIRST] = slot
            else:
                q_next[previous] = np.int32(slot)
            state[_Q_LAST] = slot
            slots[at] = np.int32(slot)
    state[_SIZE] += codes.size
    if state[_FREE_FIRST] == _NO_SLOT:
        state[_FREE_LAST] = _NO_SLOT
    return touched


@kernel
def _index_entries(
    directory: Int64s,
    tags: UInt8s,
    entry_code: Int64s,
    key_next: Int32s,
    key_count: Int32s,
    q_next: Int32s,
    q_prev: Int32s,
    state: Int64s,
    is_seen: Bools,
) -> bool:
    """Fill an empty directory and the lists of keys from Q; return whether Q and free slots are all slots once."""
    entries, distinct = 0, 0
    previous = np.int64(_NO_SLOT)
    slot = state[_Q_FIRST]
    while slot != _NO_SLOT:
        if slot < 0 or slot >= is_seen.size or is_seen[slot]:
            return False
        is_seen[slot] = True
        code = entry_code[slot]
        line = line_of(directory, mix(code), code)
        packed = directory[line, 1]
        key_next[slot] = _NO_SLOT
        if packed == 0:
            put_line(directory, tags, line, code, pack_entries(slot, slot))
            key_count[slot] = 1
            distinct += 1
        else:
            key_next[last_entry(packed)] = np.int32(slot)
            key_count[first_entry(packed)] += 1
            directory[line, 1] = pack_entries(first_entry(packed), slot)
        q_prev[slot] = np.int32(previous)
        previous = slot
        entries += 1
        slot = np.int64(q_next[slot])
    if state[_Q_LAST] != previous or state[_SIZE] != entries or state[_DISTINCT] != distinct:
        return False
    previous = np.int64(_NO_SLOT)
    slot = state[_FREE_FIRST]
    while slot != _NO_SLOT:
        if slot < 0 or slot >= is_seen.size or is_seen[slot]:
            return False
        is_seen[slot] = True
        previous = slot
        entries += 1
        slot = np.int64(q_next[slot])
    return state[_FREE_LAST] == previous and entries == is_seen.size


@kernel
def _expire_entries(
    directory: Int64s,
    tags: UInt8s,
    entry_code: Int64s,
    key_next: Int32s,
    key_count: Int32s,
    q_next: Int32s,
    q_prev: Int32s,
    state: Int64s,
    slots: Int32s,
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
            if following == _NO_SLOT:
                state[_Q_LAST] = _NO_SLOT
            else:
                q_prev[following] = _NO_SLOT
            _append_free(q_next, state, slot)
    state[_SIZE] -= slots.size
    return touched


@kernel
def _delete_keys(
    directory: Int64s,
    tags: UInt8s,
    entry_code: Int64s,
    key_next: Int32s,
    key_count: Int32s,
    q_next: Int32s,
    q_prev: Int32s,
    state: Int64s,
    codes: Int64s,
    slots: Int32s,
) -> int:
    removed = 0
    for code in codes:
        line = line_of(directory, mix(code), code)
        packed = directory[line, 1]
        if packed == 0:
            continue
        slot = np.int64(first_entry(packed))
        while slot != _NO_SLOT:
            before, after = np.int64(q_prev[slot]), np.int64(q_next[slot])
            if before == _NO_SLOT:
                state[_Q_FIRST] = after
            else:
                q_next[before] = np.int32(after)
            if after == _NO_SLOT:
                state[_Q_LAST] = before
            else:
                q_prev[after] = np.int32(before)
            _append_free(q_next, state, slot)
            slots[removed] = np.int32(slot)
            removed += 1
            slot = np.int64(key_next[slot])
        remove_line(directory, tags, line)
        state[_DISTINCT] -= 1
    state[_SIZE] -= removed
    return removed


@kernel
def _append_free(q_next: Int32s, state: Int64s, slot: np.int64 | int) -> None:
    q_next[slot] = _NO_SLOT
    if state[_FREE_LAST] == _NO_SLOT:
        state[_FREE_FIRST] = slot
    else:
        q_next[state[_FREE_LAST]] = np.int32(slot)
    state[_FREE_LAST] = slot


@kernel
def _count_entries(directory: Int64s, tags: UInt8s, key_count: Int32s, codes: Int64s, out: Int32s) -> np.int64:
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
def _find_present(directory: Int64s, codes: Int64s, present: Bools) -> None:
    for at in range(codes.size):
        present[at] = directory[line_of(directory, mix(codes[at]), codes[at]), 1] != 0


@kernel
def _count_by_hash(directory: Int64s, key_count: Int32s, counts: Int64s) -> None:
    """Add the entries of every key to the count of its part."""
    for line in range(directory.shape[0]):
        packed = directory[line, 1]
        if packed != 0:
            hashed = hash_word(np.uint64(directory[line, 0]), np.uint64(SEED))
            counts[hashed % np.uint64(counts.size)] += key_count[first_entry(packed)]


@kernel
def _fill_keys_with_at_least(directory: Int64s, key_count: Int32s, least: int, codes: Int64s, counts: Int32s) -> int:
    """Write the keys that have at least ``least`` entries; return how many there are, even beyond the output's end."""
    found = 0
    for line in range(directory.shape[0]):
        packed = directory[line, 1]
        if packed != 0 and key_count[first_entry(packed)] >= least:
            if found < codes.size:
                codes[found] = directory[line, 0]
                counts[found] = key_count[first_entry(packed)]
            found += 1
    return found


@kernel
def _follow(links: Int32s, first: np.int64, skipped: int, slots: Int32s) -> None:
    """Fill ``slots`` with a list from ``first`` on, without its first ones."""
    slot = first
    for _ in range(skipped):
        slot = np.int64(links[slot])
    for at in range(slots.size):
        slots[at] = np.int32(slot)
        slot = np.int64(links[slot])


@kernel
def _add_free_slots(q_next: Int32s, state: Int64s, first: int) -> None:
    for slot in range(first, q_next.size):
        _append_free(q_next, state, slot)


@kernel
def _give_up_free_slots(q_next: Int32s, q_prev: Int32s, state: Int64s, capacity: int) -> int:
    """Drop the slots from ``capacity`` on from the free slots; return how many these were."""
    given_up = 0
    slot = state[_FREE_FIRST]
    state[_FREE_FIRST] = state[_FREE_LAST] = _NO_SLOT
    while slot != _NO_SLOT:
        following = np.int64(q_next[slot])
        if slot >= capacity:
            q_prev[slot] = _GIVEN_UP
            given_up += 1
        else:
            _append_free(q_next, state, slot)
        slot = following
    return given_up


@kernel
def _move_entries(
    directory: Int64s,
    tags: UInt8s,
    entry_code: Int64s,
    key_next: Int32s,
    key_count: Int32s,
    q_next: Int32s,
    q_prev: Int32s,
    state: Int64s,
    capacity: int,
    from_slots: Int32s,
    to_slots: Int32s,
) -> None:
    """Move the entries in slots from ``capacity`` on to the slots that are free longest; write which went where.

    Neighbours in Q learn the new slot at once. A key's list has no way back, so an entry leaves its new slot at its old
    one, and `_redirect` corrects all links in one pass.
    """
    moved = 0
    for old in range(capacity, q_next.size):
        if q_prev[old] == _GIVEN_UP:
            continue
        new = state[_FREE_FIRST]
        state[_FREE_FIRST] = np.int64(q_next[new])
        entry_code[new] = entry_code[old]
        key_count[new] = key_count[old]
        key_next[new] = key_next[old]
        key_next[old] = np.int32(new)
        before, after = q_prev[old], q_next[old]
        q_prev[new] = before
        q_next[new] = after
        if before == _NO_SLOT:
            state[_Q_FIRST] = new
        else:
            q_next[before] = np.int32(new)
        if after == _NO_SLOT:
            state[_Q_LAST] = new
        else:
            q_prev[after] = np.int32(new)
        from_slots[moved] = np.int32(old)
        to_slots[moved] = np.int32(new)
        moved += 1
    if state[_FREE_FIRST] == _NO_SLOT:
        state[_FREE_LAST] = _NO_SLOT


@kernel
def _redirect(directory: Int64s, key_next: Int32s, capacity: int) -> None:
    """Let keys and their lists name the new slots of moved entries."""
    for slot in range(capacity):
        # A free slot holds anything: what replaces it does not matter.
        if capacity <= key_next[slot] < key_next.size:
            key_next[slot] = key_next[key_next[slot]]
    for line in range(directory.shape[0]):
        packed = directory[line, 1]
        if packed != 0:
            first, last = first_entry(packed), last_entry(packed)
            if first >= capacity:
                first = np.int64(key_next[first])
            if last >= capacity:
                last = np.int64(key_next[last])
            directory[line, 1] = pack_entries(first, last)
