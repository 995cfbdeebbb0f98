"""How the key codes of rows come out of pages."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.kernels.arrow_views import is_integer_like, is_varlen
from semistream.kernels.keys import row_codes as kinds
from semistream.kernels.keys.key_codes import KeyCoder
from semistream.kernels.pages.key_search import search_keys
from semistream.kernels.pages.page_search import search_words
from semistream.storage.reading.page_directory import PageDirectory
from semistream.storage.reading.raw_pages import PageShape, RawPages, SlottedPages

__all__ = ["PageKeys"]

_LAST_CODE = np.iinfo(np.int64).max


class PageKeys:
    """The key columns of a clustered table's pages.

    Attributes
    ----------
    parts
        One row for each key column, as `semistream.kernels.keys.row_codes` wants them.
    hash_bits
        The bits of a hash that are its code; 0 if the only key column is a number, which is its own code.
    are_words
        Whether the codes are there as they are, in words.
    """

    def __init__(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        shape = PageShape(schema, keys)
        types = [column.field.type for column in shape.columns]
        coder = KeyCoder(keys, types)
        self.hash_bits = 0 if coder.exact else coder.hash_bits
        self.are_words = coder.exact and types[0].bit_width == 64
        parts = [(*_kind(column.field.type), column.first_buffer) for column in shape.columns]
        self.parts: Int64s = np.array(parts, dtype=np.int64)
        self._valid_buffers = (self.parts[:, kinds.BUFFER] + kinds.VALID).tolist()
        self._buffers = [
            first + (number if kind == kinds.TEXT else min(number, kinds.VALUES))  # only texts have data
            for kind, _, first in parts
            for number in range(kinds.PER_PART)
        ]
        self._first_words = int(self.parts[0, kinds.BUFFER]) + kinds.VALUES

    @property
    def word_buffer(self) -> int:
        """The number of the buffer with the codes, where they are words."""
        assert self.are_words
        return self._first_words

    def may_be_null(self, pages: RawPages | SlottedPages) -> Bools:
        """Tell of each page whether it says which keys are NULL."""
        may_be: Bools = np.logical_or.reduce([pages.buffer(number) != 0 for number in self._valid_buffers])
        return may_be

    def search(
        self,
        pages: RawPages | SlottedPages,
        numbers: Int64s | Int32s,
        directory: PageDirectory,
        page_of: Int64s,
        codes: Int64s,
    ) -> tuple[Int64s, Int64s]:
        """Find ``codes[i]`` in page ``page_of[i]``, whose number in the directory is ``numbers[page_of[i]]``.

        Returns the first row of each code in its page, and that behind its last.
        """
        lows, highs = np.empty_like(codes), np.empty_like(codes)
        rows_of = directory.rows[numbers].astype(np.int64)
        if self.are_words and not self.may_be_null(pages)[page_of].any():
            begins = pages.buffer(self.word_buffer)
            search_words(begins, rows_of, np.zeros_like(rows_of), page_of, codes, lows, highs)
            return lows, highs
        first_code = directory.first_code
        assert first_code is not None
        last_codes = np.full(numbers.size, _LAST_CODE)
        has_next = numbers + 1 < directory.file_bounds[directory.file[numbers] + 1]
        last_codes[has_next] = first_code[numbers[has_next] + 1]
        buffers = np.stack([pages.buffer(number) for number in self._buffers], axis=1)
        first_codes = first_code[numbers]
        search_keys(buffers, self.parts, self.hash_bits, rows_of, first_codes, last_codes, page_of, codes, lows, highs)
        return lows, highs


def _kind(dtype: pa.DataType) -> tuple[int, int]:
    """Return the kind of a key column and the bits of a value, as `KeyCoder` hashes them."""
    if is_varlen(dtype):
        return kinds.TEXT, 64 if pt.is_large_string(dtype) or pt.is_large_binary(dtype) else 32
    if is_integer_like(dtype):
        return kinds.UNSIGNED if pt.is_unsigned_integer(dtype) else kinds.SIGNED, dtype.bit_width
    if pt.is_boolean(dtype):
        return kinds.UNSIGNED, 1
    if pt.is_float32(dtype) or pt.is_float64(dtype):
        return kinds.FLOAT, dtype.bit_width
    if pt.is_decimal128(dtype):
        return kinds.DECIMAL if dtype.precision <= 18 else kinds.LONG_DECIMAL, 128
    return kinds.BYTES, dtype.bit_width
