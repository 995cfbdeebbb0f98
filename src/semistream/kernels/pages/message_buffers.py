"""Where the buffers of serialised record batches lie, without decoding them.

A record batch travels as a message: a marker, the size of its metadata, the metadata, and the body with the buffers.
The metadata is a FlatBuffers table ``Message`` around a table ``RecordBatch``, whose third field lists the place of
every buffer (Arrow columnar format, "Serialization and interprocess communication"). Batches are not compressed.
"""

import numpy as np
import numpy.typing as npt

from semistream.kernels.compile import kernel

__all__ = ["find_buffers"]

_PREFIX_BYTES = 8  # the marker and the size of the metadata
_HEADER_FIELD = 2  # of Message
_BUFFERS_FIELD = 2  # of RecordBatch
_STRUCT_BYTES = 16  # of Buffer: offset and length

_Bytes = npt.NDArray[np.uint8]
_Int64s = npt.NDArray[np.int64]
_Uint64s = npt.NDArray[np.uint64]


@kernel
def _unsigned(raw: _Bytes, at: int | np.int64, width: int) -> np.int64:
    value = np.int64(0)
    for byte in range(width):
        value |= np.int64(raw[at + byte]) << np.int64(8 * byte)
    return value


@kernel
def _field(raw: _Bytes, table: int | np.int64, number: int) -> np.int64:
    """Return where a field of a FlatBuffers table lies, or -1 when it is absent."""
    back = np.int64(np.int32(_unsigned(raw, table, 4)))
    vtable = table - back
    if 4 + 2 * number >= _unsigned(raw, vtable, 2):
        return np.int64(-1)
    offset = _unsigned(raw, vtable + 4 + 2 * number, 2)
    return np.int64(-1) if offset == 0 else table + offset


@kernel
def find_buffers(raw: _Bytes, starts: _Int64s, buffers: _Uint64s) -> int:
    """Write the address of buffer ``b`` of the message at ``starts[m]`` into ``buffers[m, b]``, 0 for an empty one.

    Returns how many messages have as many buffers as ``buffers`` has columns, from the first on; all should.
    """
    address = np.uint64(raw.ctypes.data)
    for message in range(starts.size):
        metadata = starts[message] + _PREFIX_BYTES
        body = metadata + _unsigned(raw, starts[message] + 4, 4)
        root = metadata + _unsigned(raw, metadata, 4)
        header = _field(raw, root, _HEADER_FIELD)
        if header < 0:
            return message
        listed = _field(raw, header + _unsigned(raw, header, 4), _BUFFERS_FIELD)
        if listed < 0:
            return message
        vector = listed + _unsigned(raw, listed, 4)
        if _unsigned(raw, vector, 4) != buffers.shape[1]:
            return message
        for number in range(buffers.shape[1]):
            struct = vector + 4 + number * _STRUCT_BYTES
            length = _unsigned(raw, struct + 8, 8)
            begin = np.uint64(body + _unsigned(raw, struct, 8))
            buffers[message, number] = address + begin if length > 0 else np.uint64(0)
    return starts.size
