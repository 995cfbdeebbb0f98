"""The hash directory of the multi-map: open addressing, one line per different key.

::

    tags    directory
    hash    code | first, last      a line is empty when its second word is 0
    0x1f     17  |     1, 4         first and last are the ends of the key's list of entries

Probing is linear. When a key leaves, later lines shift back, so there are no tombstones. Most probes of a scan find
nothing, so each line has a tag, one byte of its hash: eight tags are compared at once, and a line is read only when its
tag agrees. Kernels that work on many keys first touch the lines of a whole block, which the memory system fetches in
parallel, and then work on cached memory. The number of lines can change in place (`lower_lines`, `rehash`).
"""

import numpy as np

from semistream.kernels.arrays import Int32s, Int64s, UInt8s, UInt64s
from semistream.kernels.compile import kernel

__all__ = [
    "BLOCK",
    "TAG_WORD",
    "fills_hole",
    "find_likely",
    "first_entry",
    "home_line",
    "last_entry",
    "line_of",
    "lower_lines",
    "mix",
    "next_line",
    "pack_entries",
    "probe_directory",
    "put_line",
    "rehash",
    "remove_line",
    "set_tag",
    "tag_of",
    "touch",
]

BLOCK = 128
TAG_WORD = 8

_MIX1 = np.uint64(0xFF51AFD7ED558CCD)
_MIX2 = np.uint64(0xC4CEB9FE1A85EC53)
_LOW32 = np.int64(0xFFFFFFFF)
_LOW_BITS = np.uint64(0x0101010101010101)
_HIGH_BITS = np.uint64(0x8080808080808080)


@kernel
def mix(code: np.int64) -> np.uint64:
    """Spread a code over 64 bits, as MurmurHash3's finaliser does up to its last shift."""
    mixed = np.uint64(code)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * _MIX1
    return (mixed ^ (mixed >> np.uint64(33))) * _MIX2


@kernel
def home_line(mixed: np.uint64, lines: int) -> np.int64:
    # Multiply-shift maps to [0, lines) for any number of lines, not only for powers of two.
    return np.int64(((mixed >> np.uint64(32)) * np.uint64(lines)) >> np.uint64(32))


@kernel
def next_line(line: np.int64, lines: int) -> np.int64:
    return np.int64(line + 1 if line + 1 < lines else 0)


@kernel
def tag_of(mixed: np.uint64) -> np.uint64:
    # Zero is the tag of an empty line.
    return max(mixed & np.uint64(0xFF), np.uint64(1))


@kernel
def tag_word(tags: UInt8s, line: np.int64) -> np.uint64:
    """Return the eight tags from ``line`` on; LLVM makes one load of it."""
    return (
        np.uint64(tags[line])
        | np.uint64(tags[line + 1]) << np.uint64(8)
        | np.uint64(tags[line + 2]) << np.uint64(16)
        | np.uint64(tags[line + 3]) << np.uint64(24)
        | np.uint64(tags[line + 4]) << np.uint64(32)
        | np.uint64(tags[line + 5]) << np.uint64(40)
        | np.uint64(tags[line + 6]) << np.uint64(48)
        | np.uint64(tags[line + 7]) << np.uint64(56)
    )


@kernel
def zero_bytes(word: np.uint64) -> np.uint64:
    """Return a word that is not 0 exactly if some byte of ``word`` is."""
    return (word - _LOW_BITS) & ~word & _HIGH_BITS


@kernel
def set_tag(tags: UInt8s, lines: int, line: np.int64, tag: np.uint8) -> None:
    tags[line] = tag
    if line < TAG_WORD:
        # The first tags are repeated behind the last, so that eight can be read from any line.
        tags[lines + line] = tag


@kernel
def pack_entries(first: np.int64 | np.int32, last: np.int64 | np.int32) -> np.int64:
    # Zero means an empty line, hence the shift by one.
    return (np.int64(first + 1) << np.int64(32)) | np.int64(last + 1)


@kernel
def first_entry(packed: np.int64) -> np.int64:
    return (packed >> np.int64(32)) - 1


@kernel
def last_entry(packed: np.int64) -> np.int64:
    return (packed & _LOW32) - 1


@kernel
def line_of(directory: Int64s, mixed: np.uint64, code: np.int64) -> np.int64:
    """Return the line that holds ``code``, or the empty line where it belongs."""
    lines = directory.shape[0]
    line = home_line(mixed, lines)
    while directory[line, 1] != 0 and directory[line, 0] != code:
        line = next_line(line, lines)
    return line


@kernel
def put_line(directory: Int64s, tags: UInt8s, line: np.int64, code: np.int64, packed: np.int64) -> None:
    directory[line, 0] = code
    directory[line, 1] = packed
    set_tag(tags, directory.shape[0], line, np.uint8(tag_of(mix(code))))


@kernel
def touch(directory: Int64s, tags: UInt8s, code: np.int64) -> np.int64:
    """Read a key's line, so that the processor has it cached when it is needed.

    Callers return what they touched, or the compiler would drop the read.
    """
    line = home_line(mix(code), directory.shape[0])
    return np.int64(directory[line, 1] ^ tags[line])


@kernel
def fills_hole(hole: np.int64, at: np.int64, home: np.int64, lines: int) -> np.bool_:
    """Return whether line ``at`` of the same run may move back to ``hole``: its home is not behind it."""
    from_home = at - home if at >= home else at - home + lines
    from_hole = at - hole if at >= hole else at - hole + lines
    return from_home >= from_hole


@kernel
def remove_line(directory: Int64s, tags: UInt8s, line: np.int64) -> None:
    """Empty a line and move later lines of the same run back over the hole."""
    lines = directory.shape[0]
    hole = line
    at = next_line(line, lines)
    while tags[at] != 0:
        if fills_hole(hole, at, home_line(mix(directory[at, 0]), lines), lines):
            directory[hole, 0] = directory[at, 0]
            directory[hole, 1] = directory[at, 1]
            set_tag(tags, lines, hole, tags[at])
            hole = at
        at = next_line(at, lines)
    directory[hole, 1] = 0
    set_tag(tags, lines, hole, np.uint8(0))


@kernel
def find_likely(tags: UInt8s, lines: int, codes: Int64s, mixed: UInt64s, words: UInt64s, likely: Int64s) -> np.int64:
    """Write mixed codes, and which keys may have a line; return how many may.

    These are the keys with an agreeing tag, and those whose run of full lines is longer than a word of tags.
    """
    for at in range(codes.size):
        mixed[at] = mix(codes[at])
        words[at] = tag_word(tags, home_line(mixed[at], lines))
    num_likely = np.int64(0)
    for at in range(codes.size):
        agrees = zero_bytes(words[at] ^ (tag_of(mixed[at]) * _LOW_BITS)) != 0
        ends = zero_bytes(words[at]) != 0
        likely[num_likely] = at
        num_likely += np.int64(agrees | (not ends))
    return num_likely


@kernel
def probe_directory(directory: Int64s, tags: UInt8s, codes: Int64s, rows: Int32s, firsts: Int32s) -> int:
    lines = directory.shape[0]
    mixed, words = np.empty(BLOCK, dtype=np.uint64), np.empty(BLOCK, dtype=np.uint64)
    likely, at_home = np.empty(BLOCK, dtype=np.int64), np.empty(BLOCK, dtype=np.int64)
    found = 0
    for start in range(0, codes.size, BLOCK):
        num_likely = find_likely(tags, lines, codes[start : start + BLOCK], mixed, words, likely)
        for position in range(num_likely):
            at_home[position] = directory[home_line(mixed[likely[position]], lines), 0]
        for position in range(num_likely):
            at = likely[position]
            code = codes[start + at]
            line = home_line(mixed[at], lines)
            if at_home[position] != code or directory[line, 1] == 0:
                line = line_of(directory, mixed[at], code)
            packed = directory[line, 1]
            if packed != 0:
                rows[found] = np.int32(start + at)
                firsts[found] = np.int32(first_entry(packed))
                found += 1
    return found


@kernel
def lower_lines(directory: Int64s, lines: int) -> None:
    """Put the full lines from ``lines`` on into any empty ones below; `rehash` follows."""
    empty = lines - 1
    for line in range(lines, directory.shape[0]):
        if directory[line, 1] != 0:
            while directory[empty, 1] != 0:
                empty -= 1
            directory[empty, 0] = directory[line, 0]
            directory[empty, 1] = directory[line, 1]


@kernel
def rehash(directory: Int64s, tags: UInt8s, grown: bool) -> None:
    """Put every line where it belongs, in place, after the number of lines changed.

    The caller has set all tags to 0: a full line without a tag still waits. It goes to the first line from its home on
    that has no tag; if another line waits there, that one is next.
    """
    lines = directory.shape[0]
    for step in range(lines):
        # A home is a fraction of all lines, so with more lines they move up: from the end they meet few waiting ones.
        line = lines - 1 - step if grown else step
        if tags[line] != 0 or directory[line, 1] == 0:
            continue
        code, packed = directory[line, 0], directory[line, 1]
        directory[line, 1] = 0
        while packed != 0:
            at = home_line(mix(code), lines)
            while tags[at] != 0:
                at = next_line(at, lines)
            waiting_code, waiting_packed = directory[at, 0], directory[at, 1]
            put_line(directory, tags, at, code, packed)
            code, packed = waiting_code, waiting_packed
