"""A read-only hash index from key codes to ranges of rows, in memory that a file can hold.

::

    codes     ranges
    17        4, 2       rows 4 and 5 have key 17
    -         0, -1      an empty line
    23        6, 0       key 23 is known to have no row

Lines are probed linearly. The index is built once and never changes.
"""

import numpy as np

from semistream.kernels.arrays import Int32s, Int64s
from semistream.kernels.compile import kernel
from semistream.kernels.hashing.hash_directory import home_line, mix, next_line

__all__ = ["LINE_BYTES", "build_ranges", "find_ranges", "group_by_part", "lines_for"]

LINE_BYTES = 16
_LOAD_FACTOR = 0.6


def lines_for(keys: int) -> int:
    return int(keys / _LOAD_FACTOR) + 1


@kernel
def build_ranges(keys: Int64s, firsts: Int64s, counts: Int64s, codes: Int64s, ranges: Int32s) -> None:
    """Build an index in ``codes`` and ``ranges``: ``keys[i]`` has ``counts[i]`` rows from ``firsts[i]`` on."""
    lines = codes.size
    ranges[:, 1] = -1
    for at in range(keys.size):
        line = home_line(mix(keys[at]), lines)
        while ranges[line, 1] >= 0:
            line = next_line(line, lines)
        codes[line] = keys[at]
        ranges[line, 0] = np.int32(firsts[at])
        ranges[line, 1] = np.int32(counts[at])


@kernel
def find_ranges(codes: Int64s, ranges: Int32s, wanted: Int64s, places: Int64s, firsts: Int64s, counts: Int64s) -> None:
    """Write the range of ``wanted[p]`` to place p of ``firsts`` and ``counts``, for p in ``places``; -1 if absent."""
    lines = codes.size
    for place in places:
        code = wanted[place]
        line = home_line(mix(code), lines)
        while ranges[line, 1] >= 0 and codes[line] != code:
            line = next_line(line, lines)
        firsts[place] = ranges[line, 0]
        counts[place] = ranges[line, 1]


@kernel
def group_by_part(codes: Int64s, places: Int64s, parts: int, bounds: Int64s, grouped: Int64s) -> None:
    """Order ``places`` by the part of the code at each; part p gets ``bounds[p]`` to ``bounds[p + 1]``.

    Parts use other bits of the hash than the lines of an index.
    """
    part = np.empty(places.size, dtype=np.int16)
    bounds[:] = 0
    for at in range(places.size):
        part[at] = (mix(codes[places[at]]) & np.uint64(0xFFFF)) % np.uint64(parts)
        bounds[part[at] + 1] += 1
    for number in range(parts):
        bounds[number + 1] += bounds[number]
    for at in range(places.size):
        grouped[bounds[part[at]]] = places[at]
        bounds[part[at]] += 1
    for number in range(parts, 0, -1):
        bounds[number] = bounds[number - 1]
    bounds[0] = 0
