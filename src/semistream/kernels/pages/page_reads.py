"""Reads many stretches of a file with one call from Python, and compares the checksums of many pages with another."""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel
from semistream.kernels.pages.addresses import call_digest, call_preadv2

__all__ = ["first_altered", "read_stretches"]

_Int64s = npt.NDArray[np.int64]
_Uint64s = npt.NDArray[np.uint64]


@kernel
def read_stretches(
    preadv2: np.uint64,
    flags: int,
    file: int,
    offsets: _Int64s,
    targets: _Uint64s,
    lengths: _Int64s,
    is_read: npt.NDArray[np.bool_],
) -> None:
    """Read ``lengths[i]`` bytes at ``offsets[i]`` of a file to ``targets[i]``; ``is_read`` tells which came whole."""
    vector = np.empty(2, dtype=np.uint64)
    for at in range(offsets.size):
        vector[0], vector[1] = targets[at], np.uint64(lengths[at])
        got = call_preadv2(preadv2, np.int32(file), vector.ctypes.data, offsets[at], np.int32(flags))
        is_read[at] = got == lengths[at]


@kernel
def first_altered(digest: np.uint64, begins: _Uint64s, lengths: _Int64s, checksums: _Uint64s) -> int:
    """Return the first page whose bytes do not have its checksum, or -1."""
    for page in range(begins.size):
        if call_digest(digest, begins[page], np.uint64(lengths[page])) != checksums[page]:
            return page
    return -1
