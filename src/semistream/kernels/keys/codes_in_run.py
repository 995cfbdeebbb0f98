"""Codes of one run: which repeat an earlier one, and which follow a mark on them.

A run is short beside the state: a hash table of its positions stays in the processor's cache.
"""

import numpy as np

from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.kernels.compile import kernel
from semistream.kernels.hashing.hash_directory import BLOCK, mix

__all__ = ["follow_their_mark", "repeat_in_run"]


def repeat_in_run(codes: Int64s) -> Bools:
    repeated = np.empty(codes.size, dtype=np.bool_)
    _find_repeated(codes, _table_for(codes.size), repeated)
    return repeated


def follow_their_mark(codes: Int64s, marks: Int64s, at: Int64s) -> Bools:
    """Return which codes follow a mark of the same code. Mark i stands behind ``at[i]`` codes; ``at`` ascends."""
    following = np.empty(codes.size, dtype=np.bool_)
    _find_following(codes, marks, at, _table_for(marks.size), following)
    return following


def _table_for(codes: int) -> Int32s:
    """Return an empty table; at most a quarter of it will be full, so most codes hit an empty place."""
    return np.zeros(1 << max(4, (4 * codes - 1).bit_length()), dtype=np.int32)


@kernel
def _home(table: Int32s, code: np.int64) -> np.int64:
    return np.int64(mix(code) >> np.uint64(33)) & np.int64(table.size - 1)


@kernel
def _place_of(table: Int32s, entries: Int64s, code: np.int64) -> np.int64:
    """Return the place of the entry with this code, or the empty one where it belongs; entries count from 1."""
    last = np.int64(table.size - 1)
    place = _home(table, code)
    while table[place] != 0 and entries[table[place] - 1] != code:
        place = (place + 1) & last
    return place


@kernel
def _find_repeated(codes: Int64s, table: Int32s, repeated: Bools) -> None:
    for row in range(codes.size):
        place = _place_of(table, codes, codes[row])
        repeated[row] = table[place] != 0
        if table[place] == 0:
            table[place] = np.int32(row + 1)


@kernel
def _find_following(codes: Int64s, marks: Int64s, at: Int64s, table: Int32s, following: Bools) -> None:
    for mark in range(marks.size):
        place = _place_of(table, marks, marks[mark])
        if table[place] == 0:  # the first mark of a code counts
            table[place] = np.int32(mark + 1)
    likely = np.empty(BLOCK, dtype=np.int64)
    for start in range(0, codes.size, BLOCK):
        # Most codes have no mark. Those that may have one are collected without a branch and looked up afterwards.
        num_likely = np.int64(0)
        for row in range(start, min(start + BLOCK, codes.size)):
            following[row] = False
            likely[num_likely] = row
            num_likely += np.int64(table[_home(table, codes[row])] != 0)
        for position in range(num_likely):
            at_row = likely[position]
            entry = table[_place_of(table, marks, codes[at_row])]
            following[at_row] = entry != 0 and at[entry - 1] <= at_row
