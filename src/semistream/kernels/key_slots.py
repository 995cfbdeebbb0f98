"""Directory from unique key codes to dense slots: the index of a cache.

Payload arrays of the caller are indexed by slot. A code stands once, at its slot, and a line of the directory only
names the slot; a free slot holds the next free one where its code would be. So a key costs 8 bytes for its code and a
line of 4 bytes and a tag, at a load factor of 0.7: about 15 bytes.

::

    tags   lines                      codes
    0x1f   slot 2     ──►     slot 2   17
    0      empty              slot 1   ─► 0, free
    0x90   slot 3     ──►     slot 3   23

Lines are probed, tagged and repaired as in `semistream.kernels.hash_directory`. A probe that finds nothing mostly
reads eight tags and no more.
"""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel
from semistream.kernels.hash_directory import BLOCK, TAG_WORD, home_line, mix, set_tag, tag_of, tag_word, zero_bytes

__all__ = ["KeySlots"]

_LOAD_FACTOR = 0.7
_LOW_BITS = np.uint64(0x0101010101010101)

# Positions in the state array.
_SIZE, _FREE_FIRST = range(2)

_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]
_Tags = npt.NDArray[np.uint8]


@kernel
def _insert(lines: _Int32s, tags: _Tags, code_at: _Int64s, state: _Int64s, codes: _Int64s, slots: _Int32s) -> np.int64:
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
                line += 1
                if line == lines.size:
                    line = np.int64(0)
            slot = state[_FREE_FIRST]
            state[_FREE_FIRST] = code_at[slot]
            code_at[slot] = codes[at]
            lines[line] = np.int32(slot + 1)
            set_tag(tags, lines.size, line, np.uint8(tag_of(mixed)))
            slots[at] = np.int32(slot)
    state[_SIZE] += codes.size
    return touched


@kernel
def _agreeing_line(tags: _Tags, lines: int, line: np.int64, tag: np.uint8) -> np.int64:
    """Return the first line from ``line`` on in its run that has this tag, or -1."""
    while tags[line] != tag:
        if tags[line] == 0:
            return np.int64(-1)
        line += 1
        if line == lines:
            line = np.int64(0)
    return line


@kernel
def _find(lines: _Int32s, tags: _Tags, code_at: _Int64s, codes: _Int64s, slots: _Int32s) -> None:
    mixed = np.empty(BLOCK, dtype=np.uint64)
    words = np.empty(BLOCK, dtype=np.uint64)
    likely = np.empty(BLOCK, dtype=np.int64)
    agreeing = np.empty(BLOCK, dtype=np.int64)
    guess = np.empty(BLOCK, dtype=np.int32)
    for start in range(0, codes.size, BLOCK):
        count = min(BLOCK, codes.size - start)
        for at in range(count):
            mixed[at] = mix(codes[start + at])
            words[at] = tag_word(tags, home_line(mixed[at], lines.size))
            slots[start + at] = -1
        # Keep the keys with an agreeing tag, and those whose run of full lines is longer than a word of tags.
        num_likely = np.int64(0)
        for at in range(count):
            agrees = zero_bytes(words[at] ^ (tag_of(mixed[at]) * _LOW_BITS)) != 0
            ends = zero_bytes(words[at]) != 0
            likely[num_likely] = at
            num_likely += np.int64(agrees | (not ends))
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
                line = np.int64(line + 1 if line + 1 < lines.size else 0)
                line = _agreeing_line(tags, lines.size, line, np.uint8(tag_of(mixed[at])))
                guess[position] = 0 if line < 0 else lines[line]
                if guess[position] != 0 and code_at[guess[position] - 1] == codes[start + at]:
                    slots[start + at] = guess[position] - np.int32(1)
                    guess[position] = 0


@kernel
def _empty_line(lines: _Int32s, tags: _Tags, code_at: _Int64s, line: np.int64) -> None:
    """Empty a line and move later lines of the same run back over the hole."""
    hole = line
    at = line
    while True:
        at += 1
        if at == lines.size:
            at = np.int64(0)
        if tags[at] == 0:
            break
        home = home_line(mix(code_at[lines[at] - 1]), lines.size)
        from_home = at - home if at >= home else at - home + lines.size
        from_hole = at - hole if at >= hole else at - hole + lines.size
        if from_home >= from_hole:
            lines[hole] = lines[at]
            set_tag(tags, lines.size, hole, tags[at])
            hole = at
    lines[hole] = 0
    set_tag(tags, lines.size, hole, np.uint8(0))


@kernel
def _remove(lines: _Int32s, tags: _Tags, code_at: _Int64s, state: _Int64s, slots: _Int32s) -> tuple[int, np.int64]:
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
                line += 1
                if line == lines.size:
                    line = np.int64(0)
            _empty_line(lines, tags, code_at, line)
            code_at[slot] = state[_FREE_FIRST]
            state[_FREE_FIRST] = slot
            state[_SIZE] -= 1
    return slots.size, touched


@kernel
def _live(lines: _Int32s, slots: _Int32s) -> None:
    count = 0
    for line in range(lines.size):
        if lines[line] != 0:
            slots[count] = lines[line] - np.int32(1)
            count += 1


class KeySlots:
    """Slots ``0 ... capacity - 1`` for different key codes.

    Examples
    --------
    >>> keys = KeySlots(4)
    >>> keys.insert(np.array([17, 23])).tolist()
    [0, 1]
    >>> keys.find(np.array([99, 23])).tolist()
    [-1, 1]
    >>> keys.remove(np.array([0], dtype=np.int32))
    >>> len(keys), keys.free
    (1, 3)
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        num_lines = self._num_lines(capacity)
        # Touched here and not in the first insert, so that memory is there or is refused at once.
        self._lines = np.empty(num_lines, dtype=np.int32)
        self._lines.fill(0)
        self._tags = np.empty(num_lines + TAG_WORD, dtype=np.uint8)
        self._tags.fill(0)
        self._code = np.arange(1, capacity + 1, dtype=np.int64)
        self._code[-1:] = -1
        self._state = np.array([0, 0 if capacity else -1], dtype=np.int64)

    @staticmethod
    def _num_lines(capacity: int) -> int:
        return int(capacity / _LOAD_FACTOR) + TAG_WORD

    @staticmethod
    def bytes_for(capacity: int) -> int:
        """Return the bytes of a directory of this capacity."""
        return KeySlots._num_lines(capacity) * (4 + 1) + TAG_WORD + capacity * 8

    @property
    def nbytes(self) -> int:
        return self._lines.nbytes + self._tags.nbytes + self._code.nbytes

    def __len__(self) -> int:
        return int(self._state[_SIZE])

    @property
    def free(self) -> int:
        """How many more codes fit."""
        return self.capacity - len(self)

    def insert(self, codes: _Int64s) -> _Int32s:
        """Give each code a slot; the codes are different and none has a slot yet."""
        assert codes.size <= self.free, "the caller checks that the codes fit"
        slots = np.empty(codes.size, dtype=np.int32)
        _insert(self._lines, self._tags, self._code, self._state, codes, slots)
        return slots

    def find(self, codes: _Int64s) -> _Int32s:
        """Return the slot of each code, -1 where it has none."""
        slots = np.empty(codes.size, dtype=np.int32)
        _find(self._lines, self._tags, self._code, codes, slots)
        return slots

    def remove(self, slots: _Int32s) -> None:
        """Free these slots; all are in use."""
        removed, _ = _remove(self._lines, self._tags, self._code, self._state, slots)
        assert removed == slots.size, f"slot {slots[removed]} is not in use"

    def codes_at(self, slots: _Int32s) -> _Int64s:
        """Return the code of each slot."""
        return self._code[slots]

    def live_slots(self) -> _Int32s:
        """Return the slots in use, in no particular order."""
        slots = np.empty(len(self), dtype=np.int32)
        _live(self._lines, slots)
        return slots

    def _check(self) -> None:
        """Assert all invariants; for tests."""
        assert self.nbytes == self.bytes_for(self.capacity)
        live = set(self.live_slots().tolist())
        free = set()
        slot = int(self._state[_FREE_FIRST])
        while slot != -1:
            assert slot not in free
            free.add(slot)
            slot = int(self._code[slot])
        assert len(live) == len(self)
        assert live | free == set(range(self.capacity))
        assert not live & free
        num_lines = self._lines.size
        occupied = np.flatnonzero(self._lines)
        assert occupied.size == len(self)
        assert np.array_equal(occupied, np.flatnonzero(self._tags[:num_lines]))
        assert (self._tags[-TAG_WORD:] == self._tags[:TAG_WORD]).all()
        codes = self._code[self._lines[occupied] - 1]
        assert np.unique(codes).size == codes.size
        for line, code in zip(occupied.tolist(), codes, strict=True):
            mixed = np.uint64(mix(code))
            assert self._tags[line] == tag_of(mixed)
            home = int(home_line(mixed, num_lines))
            run = (home + np.arange((line - home) % num_lines)) % num_lines
            assert self._lines[run].all(), "no empty line lies between a key and its home"
