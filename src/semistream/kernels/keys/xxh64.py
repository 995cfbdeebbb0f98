"""XXH64 over Arrow buffers, row by row, chained over the columns of a composite key.

A row's hash is that of Spark's ``xxhash64(col, ...)`` for bigint, double, text, binary and decimals of up to 18 digits:
seed 42, and each column's hash seeds the next column's. So Spark and this library put a key into the same bucket.
Smaller integers, dates, timestamps and booleans are hashed as the bigint they are stored as. The `xxhash` library
hashes one value per call; these kernels hash a column. The tests compare them with that library.
"""

import numpy as np

from semistream.kernels.arrays import Int64s, UInt8s, UInt64s
from semistream.kernels.compile import kernel
from semistream.kernels.pages.addresses import byte_at, int32_at, word_at

__all__ = ["SEED", "hash_at", "hash_fixed", "hash_int64", "hash_varlen", "hash_word"]

SEED = 42

_P1 = np.uint64(0x9E3779B185EBCA87)
_P2 = np.uint64(0xC2B2AE3D27D4EB4F)
_P3 = np.uint64(0x165667B19E3779F9)
_P4 = np.uint64(0x85EBCA77C2B2AE63)
_P5 = np.uint64(0x27D4EB2F165667C5)


@kernel
def _rotl(value: np.uint64, bits: int) -> np.uint64:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


@kernel
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotl(lane + word * _P2, 31) * _P1


@kernel
def _merge(value: np.uint64, lane: np.uint64) -> np.uint64:
    return (value ^ _round(np.uint64(0), lane)) * _P1 + _P4


@kernel
def _avalanche(value: np.uint64) -> np.uint64:
    value = (value ^ (value >> np.uint64(33))) * _P2
    value = (value ^ (value >> np.uint64(29))) * _P3
    return value ^ (value >> np.uint64(32))


@kernel
def hash_at(address: np.uint64, length: int | np.int64, seed: np.uint64) -> np.uint64:
    """Return the hash of ``length`` bytes at an address."""
    at = address
    left = np.int64(length)
    if left >= 32:
        lane1 = seed + _P1 + _P2
        lane2 = seed + _P2
        lane3 = seed
        lane4 = seed - _P1
        while left >= 32:
            lane1 = _round(lane1, np.uint64(word_at(at)))
            lane2 = _round(lane2, np.uint64(word_at(at + np.uint64(8))))
            lane3 = _round(lane3, np.uint64(word_at(at + np.uint64(16))))
            lane4 = _round(lane4, np.uint64(word_at(at + np.uint64(24))))
            at += np.uint64(32)
            left -= 32
        value = _rotl(lane1, 1) + _rotl(lane2, 7) + _rotl(lane3, 12) + _rotl(lane4, 18)
        value = _merge(_merge(_merge(_merge(value, lane1), lane2), lane3), lane4)
    else:
        value = seed + _P5
    value += np.uint64(length)
    while left >= 8:
        value = _rotl(value ^ _round(np.uint64(0), np.uint64(word_at(at))), 27) * _P1 + _P4
        at += np.uint64(8)
        left -= 8
    if left >= 4:
        value = _rotl(value ^ (np.uint64(np.uint32(int32_at(at))) * _P1), 23) * _P2 + _P3
        at += np.uint64(4)
        left -= 4
    while left > 0:
        value = _rotl(value ^ (np.uint64(byte_at(at)) * _P5), 11) * _P1
        at += np.uint64(1)
        left -= 1
    return _avalanche(value)


@kernel
def hash_word(word: np.uint64, seed: np.uint64) -> np.uint64:
    """Return the hash of an 8-byte integer."""
    value = seed + _P5 + np.uint64(8)
    value = _rotl(value ^ _round(np.uint64(0), word), 27) * _P1 + _P4
    return _avalanche(value)


@kernel
def hash_int64(values: Int64s, hashes: UInt64s) -> None:
    """Replace each seed in ``hashes`` by the hash of the row's 8-byte integer under that seed."""
    for row in range(values.size):
        hashes[row] = hash_word(np.uint64(values[row]), hashes[row])


@kernel
def hash_fixed(data: UInt8s, width: int, hashes: UInt64s) -> None:
    """Replace each seed in ``hashes`` by the hash of the row's ``width`` bytes under that seed."""
    begin = np.uint64(data.ctypes.data)
    for row in range(hashes.size):
        hashes[row] = hash_at(begin + np.uint64(row * width), width, hashes[row])


@kernel
def hash_varlen(offsets: Int64s, data: UInt8s, hashes: UInt64s) -> None:
    """Replace each seed in ``hashes`` by the hash of ``data[offsets[row]:offsets[row + 1]]``."""
    begin = np.uint64(data.ctypes.data)
    for row in range(hashes.size):
        hashes[row] = hash_at(begin + np.uint64(offsets[row]), offsets[row + 1] - offsets[row], hashes[row])
