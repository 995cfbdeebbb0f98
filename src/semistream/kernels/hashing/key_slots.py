"""Directory from unique key codes to dense slots: the index of a cache.

The caller's payload arrays are indexed by slot. A code stands once, at its slot; a line of the directory only names the
slot. A free slot holds the next free one in place of a code. So a key costs 8 bytes for its code and, at a load factor
of 0.7, a line of 4 bytes and a tag: about 15 bytes.

::

    tags   lines                      codes
    0x1f   slot 2     ──►     slot 2   17
    0      empty              slot 1   ─► 0, free
    0x90   slot 3     ──►     slot 3   23

Lines are probed, tagged and repaired as in `hash_directory`. A probe that finds nothing mostly reads just eight tags.
`resize` changes the capacity in place and takes O(capacity).
"""

import numpy as np

from semistream.core.saved_state import Array, SavedState
from semistream.kernels.arrays import Bools, Int32s, Int64s, UInt8s
from semistream.kernels.compile import kernel
from semistream.kernels.elastic import ElasticArray, Moves
from semistream.kernels.hashing.hash_directory import (
    BLOCK,
    TAG_WORD,
    fills_hole,
    find_likely,
    home_line,
    mix,
    next_line,
    set_tag,
    tag_of,
)

__all__ = ["KeySlots"]

_LOAD_FACTOR = 0.7

# Positions in the state array.
_SIZE, _FREE_FIRST = range(2)


@kernel
def _insert(lines: Int32s, tags: UInt8s, code_at: Int64s, state: Int64s, codes: Int64s, slots: Int32s) -> np.int64:
    touched = np.int64(0)
    for start in range(0, codes.size, BLOCK):
        stop = min(start + BLOCK, codes.size)
        for at in range(start, stop):
            line = home_line(mix(codes[at]), lines.size)
            touched ^= np.int64(lines[line] ^ tags[line])
        for at in range(start, stop):
            mixed = mix(codes[at])
            line = home_line(mixed, lines.size)
            while tags[line] != 0:
                line = next_line(line, lines.size)
            slot = state[_FREE_FIRST]
            state[_FREE_FIRST] = code_at[slot]
            code_at[slot] = codes[at]
            lines[line] = np.int32(slot + 1)
            set_tag(tags, lines.size, line, np.uint8(tag_of(mixed)))
            slots[at] = np.int32(slot)
    state[_SIZE] += codes.size
    return touched


@kernel
def _agreeing_line(tags: UInt8s, lines: int, line: np.int64, tag: np.uint8) -> np.int64:
    """Return the first line from ``line`` on in its run that has this tag, or -1."""
    while tags[line] != tag:
        if tags[line] == 0:
            return np.int64(-1)
        line = next_line(line, lines)
    return line


@kernel
def _find(lines: Int32s, tags: UInt8s, code_at: Int64s, codes: Int64s, slots: Int32s) -> None:
    mixed, words = np.empty(BLOCK, dtype=np.uint64), np.empty(BLOCK, dtype=np.uint64)
    likely, agreeing = np.empty(BLOCK, dtype=np.int64), np.empty(BLOCK, dtype=np.int64)
    guess = np.empty(BLOCK, dtype=np.int32)
    slots[:] = -1
    for start in range(0, codes.size, BLOCK):
        num_likely = find_likely(tags, lines.size, codes[start : start + BLOCK], mixed, words, likely)
        # Line, then code: each is read for all keys before it is needed for one.
        for position in range(num_likely):
            at = likely[position]
            home = home_line(mixed[at], lines.size)
            line = _agreeing_line(tags, lines.size, home, np.uint8(tag_of(mixed[at])))
            agreeing[position] = line
            guess[position] = 0 if line < 0 else lines[line]
        for position in range(num_likely):
            at = likely[position]
            if guess[position] != 0 and code_at[guess[position] - 1] == codes[start + at]:
                slots[start + at] = guess[position] - np.int32(1)
                guess[position] = 0
        for position in range(num_likely):
            at = likely[position]
            line = agreeing[position]
            while guess[position] != 0:
                line = _agreeing_line(tags, lines.size, next_line(line, lines.size), np.uint8(tag_of(mixed[at])))
                guess[position] = 0 if line < 0 else lines[line]
                if guess[position] != 0 and code_at[guess[position] - 1] == codes[start + at]:
                    slots[start + at] = guess[position] - np.int32(1)
                    guess[position] = 0


@kernel
def _empty_line(lines: Int32s, tags: UInt8s, code_at: Int64s, line: np.int64) -> None:
    """Empty a line and move later lines of the same run back over the hole."""
    hole = line
    at = next_line(line, lines.size)
    while tags[at] != 0:
        if fills_hole(hole, at, home_line(mix(code_at[lines[at] - 1]), lines.size), lines.size):
            lines[hole] = lines[at]
            set_tag(tags, lines.size, hole, tags[at])
            hole = at
        at = next_line(at, lines.size)
    lines[hole] = 0
    set_tag(tags, lines.size, hole, np.uint8(0))


@kernel
def _remove(lines: Int32s, tags: UInt8s, code_at: Int64s, state: Int64s, slots: Int32s) -> tuple[int, np.int64]:
    touched = np.int64(0)
    for start in range(0, slots.size, BLOCK):
        stop = min(start + BLOCK, slots.size)
        for at in range(start, stop):
            line = home_line(mix(code_at[slots[at]]), lines.size)
            touched ^= np.int64(lines[line] ^ tags[line])
        for at in range(start, stop):
            slot = slots[at]
            line = home_line(mix(code_at[slot]), lines.size)
            while lines[line] != slot + 1:
                if lines[line] == 0:
                    return at, touched
                line = next_line(line, lines.size)
            _empty_line(lines, tags, code_at, line)
            code_at[slot] = state[_FREE_FIRST]
            state[_FREE_FIRST] = slot
            state[_SIZE] -= 1
    return slots.size, touched


@kernel
def _live(lines: Int32s, slots: Int32s) -> None:
    count = 0
    for line in range(lines.size):
        if lines[line] != 0:
            slots[count] = lines[line] - np.int32(1)
            count += 1


@kernel
def _add_free_slots(code_at: Int64s, state: Int64s, first: int) -> None:
    for slot in range(code_at.size - 1, first - 1, -1):
        code_at[slot] = state[_FREE_FIRST]
        state[_FREE_FIRST] = slot


@kernel
def _give_up_free_slots(lines: Int32s, tags: UInt8s, code_at: Int64s, state: Int64s, capacity: int) -> int:
    """Drop the slots from ``capacity`` on from the free slots; return how many these were.

    Following the chain of free slots would wait for memory at each. Instead the tags, which are built anew afterwards,
    mark the slots in use.
    """
    tags[:] = 0
    for line in range(lines.size):
        if lines[line] != 0:
            tags[lines[line] - 1] = 1
    given_up = 0
    state[_FREE_FIRST] = -1
    for slot in range(code_at.size - 1, -1, -1):
        if tags[slot] == 0:
            if slot >= capacity:
                given_up += 1
            else:
                code_at[slot] = state[_FREE_FIRST]
                state[_FREE_FIRST] = slot
    return given_up


@kernel
def _move_keys(
    lines: Int32s, code_at: Int64s, state: Int64s, capacity: int, from_slots: Int32s, to_slots: Int32s
) -> None:
    """Move the keys in slots from ``capacity`` on to free slots; write which went where."""
    moved = 0
    for line in range(lines.size):
        if lines[line] > capacity:
            new = state[_FREE_FIRST]
            state[_FREE_FIRST] = code_at[new]
            from_slots[moved] = lines[line] - np.int32(1)
            to_slots[moved] = np.int32(new)
            code_at[new] = code_at[from_slots[moved]]
            lines[line] = np.int32(new + 1)
            moved += 1


@kernel
def _lower_lines(lines: Int32s, num_lines: int) -> None:
    """Put the full lines from ``num_lines`` on into any empty ones below; `_rehash` follows."""
    empty = num_lines - 1
    for line in range(num_lines, lines.size):
        if lines[line] != 0:
            while lines[empty] != 0:
                empty -= 1
            lines[empty] = lines[line]


@kernel
def _rehash(lines: Int32s, tags: UInt8s, code_at: Int64s, grown: bool) -> np.int64:
    """Put every line where it belongs after the number of lines changed; see `hash_directory.rehash`."""
    touched = np.int64(0)
    for start in range(0, lines.size, BLOCK):
        stop = min(start + BLOCK, lines.size)
        for step in range(start, stop):
            line = lines.size - 1 - step if grown else step
            touched ^= code_at[max(lines[line] - 1, 0)] if code_at.size else 0
        for step in range(start, stop):
            line = lines.size - 1 - step if grown else step
            if tags[line] != 0:
                continue
            named = lines[line]
            lines[line] = 0
            while named != 0:
                mixed = mix(code_at[named - 1])
                at = home_line(mixed, lines.size)
                while tags[at] != 0:
                    at = next_line(at, lines.size)
                waiting = lines[at]
                lines[at] = named
                set_tag(tags, lines.size, at, np.uint8(tag_of(mixed)))
                named = waiting
    return touched


@kernel
def _is_sound(lines: Int32s, tags: UInt8s, code_at: Int64s, state: Int64s, is_seen: Bools) -> bool:
    """Return whether every slot is named once, by the line that a probe for its code finds or by the free slots."""
    for line in range(TAG_WORD):
        if tags[lines.size + line] != tags[line]:
            return False
    keys = 0
    first_empty = lines.size
    for line in range(lines.size):
        slot = np.int64(lines[line]) - 1
        if slot == -1:
            first_empty = min(first_empty, line)
            if tags[line] != 0:
                return False
            continue
        if slot < 0 or slot >= is_seen.size or is_seen[slot] or tags[line] != tag_of(mix(code_at[slot])):
            return False
        is_seen[slot] = True
        keys += 1
    if keys != state[_SIZE]:
        return False
    full = 0  # lines in a row; there are more lines than slots, so one is empty
    for step in range(lines.size):
        line = (first_empty + step) % lines.size
        if lines[line] == 0:
            full = 0
            continue
        from_home = line - home_line(mix(code_at[lines[line] - 1]), lines.size)
        if (from_home if from_home >= 0 else from_home + lines.size) > full:
            return False
        full += 1
    slot = state[_FREE_FIRST]
    while slot != -1:
        if slot < 0 or slot >= is_seen.size or is_seen[slot]:
            return False
        is_seen[slot] = True
        keys += 1
        slot = code_at[slot]
    return keys == is_seen.size


class KeySlots:
    """Slots ``0 ... capacity - 1`` for different key codes; `resize` needs a ``max_capacity``."""

    def __init__(self, capacity: int, max_capacity: int | None = None) -> None:
        self.capacity = capacity
        num_lines = self._num_lines(capacity)
        max_lines = None if max_capacity is None else self._num_lines(max_capacity)
        self._lines = ElasticArray(num_lines, np.int32, max_capacity=max_lines)
        self._tags = ElasticArray(num_lines + TAG_WORD, np.uint8, max_capacity=max_lines and max_lines + TAG_WORD)
        self._code = ElasticArray(capacity, np.int64, max_capacity=max_capacity)
        self._state = np.array([0, -1], dtype=np.int64)
        # Touched here, not in the first insert: missing memory shows at once.
        self._lines.values.fill(0)
        self._tags.values.fill(0)
        _add_free_slots(self._code.values, self._state, 0)

    @staticmethod
    def _num_lines(capacity: int) -> int:
        return int(capacity / _LOAD_FACTOR) + TAG_WORD

    @staticmethod
    def bytes_for(capacity: int) -> int:
        return KeySlots._num_lines(capacity) * (4 + 1) + TAG_WORD + capacity * 8

    @property
    def nbytes(self) -> int:
        return self._lines.values.nbytes + self._tags.values.nbytes + self._code.values.nbytes

    def __len__(self) -> int:
        return int(self._state[_SIZE])

    @property
    def free(self) -> int:
        return self.capacity - len(self)

    def insert(self, codes: Int64s) -> Int32s:
        """Give each code a slot; the codes differ and none has a slot yet."""
        assert codes.size <= self.free, "the caller checks that the codes fit"
        slots = np.empty(codes.size, dtype=np.int32)
        _insert(self._lines.values, self._tags.values, self._code.values, self._state, codes, slots)
        return slots

    def find(self, codes: Int64s) -> Int32s:
        slots = np.empty(codes.size, dtype=np.int32)
        _find(self._lines.values, self._tags.values, self._code.values, codes, slots)
        return slots

    def remove(self, slots: Int32s) -> None:
        """Free these slots; all are in use."""
        removed, _ = _remove(self._lines.values, self._tags.values, self._code.values, self._state, slots)
        assert removed == slots.size, f"slot {slots[removed]} is not in use"

    def resize(self, capacity: int) -> Moves:
        """Change the capacity in place; keys in slots given up move to free slots."""
        assert len(self) <= capacity, "the caller checks that the codes fit"
        num_lines, lines_before = self._num_lines(capacity), self._lines.values.size
        grown = capacity > self.capacity
        moves = Moves.of(0) if grown else self._give_up_slots(capacity)
        if not grown:
            _lower_lines(self._lines.values, num_lines)
        self._lines.resize(num_lines)
        self._tags.resize(num_lines + TAG_WORD)
        self._code.resize(capacity)
        self._lines.values[lines_before:] = 0
        self._tags.values.fill(0)
        _rehash(self._lines.values, self._tags.values, self._code.values, grown)
        _add_free_slots(self._code.values, self._state, self.capacity)
        self.capacity = capacity
        return moves

    def _give_up_slots(self, capacity: int) -> Moves:
        free = _give_up_free_slots(self._lines.values, self._tags.values, self._code.values, self._state, capacity)
        moves = Moves.of(self.capacity - capacity - free)
        if moves.from_slots.size:
            _move_keys(self._lines.values, self._code.values, self._state, capacity, moves.from_slots, moves.to_slots)
        return moves

    def codes_at(self, slots: Int32s) -> Int64s:
        return self._code.values[slots]

    def live_slots(self) -> Int32s:
        slots = np.empty(len(self), dtype=np.int32)
        _live(self._lines.values, slots)
        return slots

    def state(self) -> SavedState:
        """Return all arrays as they lie: the order of `live_slots` depends on them."""
        return SavedState(arrays=self._saved_arrays())

    def set_state(self, saved: SavedState) -> None:
        for name, values in self._saved_arrays().items():
            saved.fill(name, values)
        is_seen = np.zeros(self.capacity, dtype=np.bool_)
        is_sound = _is_sound(self._lines.values, self._tags.values, self._code.values, self._state, is_seen)
        saved.require(is_sound, "keys in lines where no probe finds them, or slots that are not in use or free once")

    def _saved_arrays(self) -> dict[str, Array]:
        return {"lines": self._lines.values, "tags": self._tags.values, "code": self._code.values, "ends": self._state}

    def _check(self) -> None:
        lines, tags, code_at = self._lines.values, self._tags.values, self._code.values
        assert self.nbytes == self.bytes_for(self.capacity)
        live = self.live_slots().tolist()
        slot = int(self._state[_FREE_FIRST])
        free = []
        while slot != -1:
            free.append(slot)
            slot = int(code_at[slot])
        assert len(live) == len(self)
        assert sorted([*live, *free]) == list(range(self.capacity))
        num_lines = lines.size
        occupied = np.flatnonzero(lines)
        assert occupied.size == len(self)
        assert np.array_equal(occupied, np.flatnonzero(tags[:num_lines]))
        assert (tags[-TAG_WORD:] == tags[:TAG_WORD]).all()
        codes = code_at[lines[occupied] - 1]
        assert np.unique(codes).size == codes.size
        for line, code in zip(occupied.tolist(), codes, strict=True):
            mixed = np.uint64(mix(code))
            assert tags[line] == tag_of(mixed)
            home = int(home_line(mixed, num_lines))
            run = (home + np.arange((line - home) % num_lines)) % num_lines
            assert lines[run].all(), "no empty line lies between a key and its home"
