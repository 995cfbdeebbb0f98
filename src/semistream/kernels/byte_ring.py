"""Values of varying length in a ring of bytes: a value is addressed by its logical start and may wrap around."""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel

__all__ = ["copy_into_ring", "copy_out_of_ring"]


@kernel
def copy_into_ring(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int32],
    ring: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
) -> None:
    """Copy ``data[offsets[row]:][:lengths[row]]`` to the ring at ``starts[row]``, for every row."""
    capacity = ring.size
    for row in range(lengths.size):
        source = offsets[row]
        target = starts[row] % capacity if capacity else 0
        length = lengths[row]
        before_wrap = min(length, capacity - target)
        for byte in range(before_wrap):
            ring[target + byte] = data[source + byte]
        for byte in range(before_wrap, length):
            ring[target + byte - capacity] = data[source + byte]


@kernel
def copy_out_of_ring(
    ring: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int32],
    out: npt.NDArray[np.uint8],
) -> None:
    """Copy the value of every row out of the ring, one after the other."""
    capacity = ring.size
    target = 0
    for row in range(lengths.size):
        source = starts[row] % capacity if capacity else 0
        length = lengths[row]
        before_wrap = min(length, capacity - source)
        for byte in range(before_wrap):
            out[target + byte] = ring[source + byte]
        for byte in range(before_wrap, length):
            out[target + byte] = ring[source + byte - capacity]
        target += length
