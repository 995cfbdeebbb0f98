"""A block of cached rows: whole row sets of keys and the index to find them, in one piece of read-only memory.

::

    header │ key codes │ row ranges │ message of a record batch with the rows

A block never changes. It can lie in a file that several processes map, and its checksum is verified before it is used.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from semistream.kernels.keys.key_ranges import LINE_BYTES, build_ranges, find_ranges, lines_for
from semistream.storage.reading.raw_pages import PageShape

__all__ = ["HotBlock", "index_bytes_for"]

_MAGIC = 0x54534D53
_FORMAT = 1
_HEADER_WORDS = 8
_MOST_SEEN = 255  # what a counter of keys holds at most
# Positions in the header.
_KIND, _CHECKSUM, _LINES, _KEYS, _ROWS, _BYTES, _FLOOR, _OWNER = range(8)

_Bytes = npt.NDArray[np.uint8]
_Int64s = npt.NDArray[np.int64]


def index_bytes_for(keys: int) -> int:
    """Return what a block with so many keys takes beside its rows."""
    return 8 * _HEADER_WORDS + LINE_BYTES * lines_for(keys)


class HotBlock:
    """Rows of some keys.

    Attributes
    ----------
    raw
        The whole block.
    pages
        Its rows.
    floor
        A key had to be seen more often than this to take the place of one in the block; 0 while it is not full.
    built_at
        How often the counts of keys had been halved by then.
    """

    def __init__(self, raw: _Bytes, shape: PageShape) -> None:
        header = raw[: 8 * _HEADER_WORDS].view(np.int64)
        lines = int(header[_LINES])
        self.raw = raw
        self.num_keys = int(header[_KEYS])
        self.num_rows = int(header[_ROWS])
        self.floor = int(header[_FLOOR]) & _MOST_SEEN
        self.built_at = int(header[_FLOOR]) >> 8
        codes_end = 8 * _HEADER_WORDS + 8 * lines
        self.message_start = codes_end + 8 * lines
        self._codes = raw[8 * _HEADER_WORDS : codes_end].view(np.int64)
        self._ranges = raw[codes_end : self.message_start].view(np.int32).reshape(-1, 2)
        self.pages = shape.pages(raw, [self.message_start])

    def __reduce__(self) -> tuple[object, ...]:
        return HotBlock, (self.raw, self.pages.shape)  # all else are views of it

    @property
    def nbytes(self) -> int:
        return int(self.raw.size)

    @staticmethod
    def build(
        codes: _Int64s, counts: _Int64s, rows: pa.RecordBatch, *, owner: int, floor: int = 0, built_at: int = 0
    ) -> _Bytes:
        """Return the memory of a block: ``counts[i]`` of the rows, in turn, for each of the different ``codes``."""
        message = rows.serialize()
        lines = lines_for(codes.size)
        message_start = 8 * _HEADER_WORDS + LINE_BYTES * lines
        raw = np.zeros(message_start + message.size, dtype=np.uint8)
        index = raw[8 * _HEADER_WORDS : message_start]
        firsts = np.cumsum(counts) - counts
        build_ranges(
            codes, firsts, counts, index[: 8 * lines].view(np.int64), index[8 * lines :].view(np.int32).reshape(-1, 2)
        )
        raw[message_start:] = np.frombuffer(memoryview(message), dtype=np.uint8)
        header = raw[: 8 * _HEADER_WORDS].view(np.int64)
        header[_KIND] = _MAGIC << 8 | _FORMAT
        header[[_LINES, _KEYS, _ROWS, _BYTES]] = lines, codes.size, rows.num_rows, raw.size
        header[[_FLOOR, _OWNER]] = built_at << 8 | min(floor, _MOST_SEEN), owner
        header[_CHECKSUM] = _checksum(raw)
        return raw

    @staticmethod
    def is_sound(raw: _Bytes, owner: int) -> bool:
        """Whether these bytes are a whole block, just as it was built, of the same table version and columns."""
        if raw.size < 8 * _HEADER_WORDS:
            return False
        header = raw[: 8 * _HEADER_WORDS].view(np.int64)
        whole = header[_KIND] == _MAGIC << 8 | _FORMAT and header[_BYTES] == raw.size and header[_OWNER] == owner
        return bool(whole and header[_CHECKSUM] == _checksum(raw))

    def find(self, wanted: _Int64s, places: _Int64s, firsts: _Int64s, counts: _Int64s) -> None:
        """Write first row and number of rows of the keys at these places; -1 rows for a key that is not here."""
        find_ranges(self._codes, self._ranges, wanted, places, firsts, counts)

    def keys(self) -> tuple[_Int64s, _Int64s, _Int64s]:
        """Return the code, first row and number of rows of every key."""
        full = self._ranges[:, 1] >= 0
        ranges = self._ranges[full].astype(np.int64)
        return self._codes[full], ranges[:, 0], ranges[:, 1]


def _checksum(raw: _Bytes) -> np.int64:
    digest = xxhash.xxh3_64_intdigest(raw[16:].data)  # all behind kind and checksum
    return np.uint64(digest).astype(np.int64)
