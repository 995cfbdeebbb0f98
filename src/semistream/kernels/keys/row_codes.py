"""The key code of a single row, from the buffers of its key columns where they lie.

Pages are sorted by key code. A search looks at few rows of a page, so it is cheaper to compute their codes than to
keep a code beside every row. The codes are those of `KeyCoder`.
"""

import numpy as np

from semistream.kernels.arrays import Int64s, UInt64s
from semistream.kernels.compile import kernel
from semistream.kernels.keys.xxh64 import SEED, hash_at, hash_word
from semistream.kernels.pages.addresses import byte_at, int32_at, prefetch, uint16_at, widened, word_at

__all__ = [
    "BITS",
    "BUFFER",
    "BYTES",
    "DATA",
    "DECIMAL",
    "FLOAT",
    "KIND",
    "LONG_DECIMAL",
    "PER_PART",
    "SIGNED",
    "TEXT",
    "UNSIGNED",
    "VALID",
    "VALUES",
    "code_of_row",
    "prefetch_row",
    "prefetch_texts",
]

# What is told of each key column.
KIND, BITS, BUFFER = range(3)  # its kind; the bits of a value, or of an offset; the number of its first buffer

# Kinds of key columns.
SIGNED = 0
UNSIGNED = 1  # and flags, of one bit
FLOAT = 2
DECIMAL = 3  # of up to 18 digits: the lower half tells them apart
LONG_DECIMAL = 4
BYTES = 5
TEXT = 6

# Where the buffers of a key column lie.
VALID, VALUES, DATA = range(3)
PER_PART = 3

_NOWHERE = np.uint64(0)
_NULL_CODE = np.int64(np.iinfo(np.int64).min)
_SIGN = np.int64(np.iinfo(np.int64).min)
_MAGNITUDE = np.int64(np.iinfo(np.int64).max)
_INFINITY = np.int64(0x7FF0000000000000)
_NAN = np.int64(0x7FF8000000000000)


@kernel
def _bit(begin: np.uint64, row: np.int64) -> np.int64:
    return np.int64(byte_at(begin + np.uint64(row >> 3)) >> np.uint8(row & 7)) & np.int64(1)


@kernel
def _number(begin: np.uint64, row: np.int64, kind: np.int64, bits: np.int64) -> np.int64:
    """Return the integer as which a value is stored, or the bits of a floating-point number as a double."""
    if bits == 64:
        value = word_at(begin + np.uint64(8 * row))
    elif bits == 32:
        narrow = int32_at(begin + np.uint64(4 * row))
        if kind == FLOAT:
            value = widened(narrow)
        else:
            value = np.int64(narrow) if kind == SIGNED else np.int64(np.uint32(narrow))
    elif bits == 16:
        short = uint16_at(begin + np.uint64(2 * row))
        value = np.int64(np.int16(short)) if kind == SIGNED else np.int64(short)
    elif bits == 8:
        byte = byte_at(begin + np.uint64(row))
        value = np.int64(np.int8(byte)) if kind == SIGNED else np.int64(byte)
    else:
        value = _bit(begin, row)
    if kind == FLOAT:
        if value == _SIGN:  # -0.0
            return np.int64(0)
        if (value & _MAGNITUDE) > _INFINITY:
            return _NAN
    return np.int64(value)


@kernel
def _text(begin: np.uint64, row: np.int64, bits: np.int64) -> tuple[np.int64, np.int64]:
    """Return where a text begins and ends among the data."""
    if bits == 32:
        at = begin + np.uint64(4 * row)
        return np.int64(int32_at(at)), np.int64(int32_at(at + np.uint64(4)))
    at = begin + np.uint64(8 * row)
    return word_at(at), word_at(at + np.uint64(8))


@kernel
def code_of_row(
    parts: Int64s, hash_bits: int, lane: int | np.int64, places: UInt64s, room: Int64s, row: np.int64
) -> np.int64:
    """Return the code of a row of the page whose buffers lie at ``places[lane]``, `NULL_CODE` for a NULL key.

    Parameters
    ----------
    parts
        One row for each key column: `KIND`, `BITS`, `BUFFER`.
    hash_bits
        The bits of a hash that are its code; 0 if the only key column is a number, which is its own code.
    places
        For each lane and key column the addresses of `VALID`, `VALUES` and `DATA`; 0 for a buffer that is not there.
    room
        For each lane and key column the bytes that texts have. One that does not lie in them counts as empty: any code
        will do for a row of a page that is changed while it is searched.
    """
    code = np.uint64(SEED)
    for part in range(parts.shape[0]):
        kind, bits = parts[part, KIND], parts[part, BITS]
        valid = places[lane, PER_PART * part + VALID]
        values = places[lane, PER_PART * part + VALUES]
        if valid != _NOWHERE and _bit(valid, row) == 0:
            return _NULL_CODE
        if kind == TEXT:
            low, high = _text(values, row, bits)
            if low < 0 or high < low or high > room[lane, part]:
                low = high = np.int64(0)
            code = hash_at(places[lane, PER_PART * part + DATA] + np.uint64(low), high - low, code)
        elif kind == BYTES:
            width = bits >> 3
            code = hash_at(values + np.uint64(row * width), width, code)
        elif kind in (DECIMAL, LONG_DECIMAL):
            code = hash_word(np.uint64(word_at(values + np.uint64(16 * row))), code)
            if kind == LONG_DECIMAL:
                code = hash_word(np.uint64(word_at(values + np.uint64(16 * row + 8))), code)
        else:
            number = _number(values, row, kind, bits)
            if hash_bits == 0:
                return number
            code = hash_word(np.uint64(number), code)
    return np.int64(code) & np.int64(hash_bits)


@kernel
def prefetch_row(parts: Int64s, lane: int | np.int64, places: UInt64s, row: np.int64) -> bool:
    """Ask for the memory of a row's values, and tell whether it has texts, whose data is asked for afterwards."""
    has_texts = False
    for part in range(parts.shape[0]):
        prefetch(places[lane, PER_PART * part + VALUES] + np.uint64((row * parts[part, BITS]) >> 3))
        has_texts |= parts[part, KIND] == TEXT
    return has_texts


@kernel
def prefetch_texts(parts: Int64s, lane: int | np.int64, places: UInt64s, row: np.int64) -> None:
    for part in range(parts.shape[0]):
        if parts[part, KIND] == TEXT:
            low, _ = _text(places[lane, PER_PART * part + VALUES], row, parts[part, BITS])
            prefetch(places[lane, PER_PART * part + DATA] + np.uint64(low))
