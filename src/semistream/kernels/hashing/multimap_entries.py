"""How entries of the FIFO multi-map come, go and are counted: kernels over its directory and lists together."""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel
from semistream.kernels.hashing.hash_directory import (
    BLOCK,
    first_entry,
    last_entry,
    line_of,
    mix,
    pack_entries,
    remove_line,
    set_tag,
    tag_of,
    touch,
)
from semistream.kernels.hashing.multimap_lists import (
    DISTINCT,
    FREE_FIRST,
    FREE_LAST,
    NO_SLOT,
    Q_FIRST,
    Q_LAST,
    SIZE,
    release,
)
from semistream.kernels.keys.xxh64 import SEED, hash_word

__all__ = [
    "count_by_hash",
    "count_entries",
    "delete_keys",
    "expire_entries",
    "fill_keys_with_at_least",
    "find_present",
    "index_entries",
    "insert_entries",
]

_Bools = npt.NDArray[np.bool_]
_Int32s = npt.NDArray[np.int32]
_Int64s = npt.NDArray[np.int64]
_Tags = npt.NDArray[np.uint8]


@kernel
def insert_entries(
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
            slot = state[FREE_FIRST]
            state[FREE_FIRST] = q_next[slot]
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
                state[DISTINCT] += 1
            else:
                key_next[last_entry(packed)] = np.int32(slot)
                directory[line, 1] = pack_entries(first_entry(packed), slot)
                key_count[first_entry(packed)] += 1
            previous = state[Q_LAST]
            q_prev[slot] = np.int32(previous)
            q_next[slot] = NO_SLOT
            if previous == NO_SLOT:
                state[Q_FIRST] = slot
            else:
                q_next[previous] = np.int32(slot)
            state[Q_LAST] = slot
            slots[at] = np.int32(slot)
    state[SIZE] += codes.size
    if state[FREE_FIRST] == NO_SLOT:
        state[FREE_LAST] = NO_SLOT
    return touched


@kernel
def index_entries(directory: _Int64s, tags: _Tags, entry_code: _Int64s, q_next: _Int32s, state: _Int64s) -> None:
    """Fill an empty directory from entries whose lists are there."""
    slot = state[Q_FIRST]
    while slot != NO_SLOT:
        code = entry_code[slot]
        mixed = mix(code)
        line = line_of(directory, mixed, code)
        packed = directory[line, 1]
        if packed == 0:
            set_tag(tags, directory.shape[0], line, np.uint8(tag_of(mixed)))
            directory[line, 0] = code
            directory[line, 1] = pack_entries(slot, slot)
        else:
            directory[line, 1] = pack_entries(first_entry(packed), slot)
        slot = np.int64(q_next[slot])


@kernel
def expire_entries(
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
        slot = state[Q_FIRST]
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
                state[DISTINCT] -= 1
            else:
                # The oldest entry of all is the first of its key.
                directory[line, 1] = pack_entries(key_next[slot], last_entry(packed))
                key_count[key_next[slot]] = key_count[slot] - 1
            following = np.int64(q_next[slot])
            state[Q_FIRST] = following
            if following == NO_SLOT:
                state[Q_LAST] = NO_SLOT
            else:
                q_prev[following] = NO_SLOT
            release(q_next, state, slot)
    return touched


@kernel
def delete_keys(
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
                state[Q_FIRST] = after
            else:
                q_next[before] = np.int32(after)
            if after == NO_SLOT:
                state[Q_LAST] = before
            else:
                q_prev[after] = np.int32(before)
            release(q_next, state, slot)
            slots[removed] = np.int32(slot)
            removed += 1
            slot = np.int64(key_next[slot])
        remove_line(directory, tags, line)
        state[DISTINCT] -= 1
    return removed


@kernel
def count_entries(directory: _Int64s, tags: _Tags, key_count: _Int32s, codes: _Int64s, out: _Int32s) -> np.int64:
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
def count_by_hash(directory: _Int64s, key_count: _Int32s, counts: _Int64s) -> None:
    """Add the entries of every key to the count of its part: its hash modulo their number."""
    for line in range(directory.shape[0]):
        packed = directory[line, 1]
        if packed != 0:
            hashed = hash_word(np.uint64(directory[line, 0]), np.uint64(SEED))
            counts[hashed % np.uint64(counts.size)] += key_count[first_entry(packed)]


@kernel
def find_present(directory: _Int64s, codes: _Int64s, present: _Bools) -> None:
    """Say of every code whether it has entries."""
    for at in range(codes.size):
        present[at] = directory[line_of(directory, mix(codes[at]), codes[at]), 1] != 0


@kernel
def fill_keys_with_at_least(directory: _Int64s, key_count: _Int32s, least: int, codes: _Int64s, counts: _Int32s) -> int:
    """Fill the output with keys that have ``least`` entries or more; return how many there are, even beyond its end."""
    found = 0
    for line in range(directory.shape[0]):
        packed = directory[line, 1]
        if packed != 0 and key_count[first_entry(packed)] >= least:
            if found < codes.size:
                codes[found] = directory[line, 0]
                counts[found] = key_count[first_entry(packed)]
            found += 1
    return found
