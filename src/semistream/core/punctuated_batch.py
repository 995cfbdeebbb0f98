"""Tuples and the punctuations between them, both in columns.

Every tenth element of a stream may be a punctuation: as objects between batches they would cut these to pieces. So a
batch carries its punctuations beside its rows, each with its place among them.

::

    rows  9 12 5 3 12 ▲ 5 11 10 ▲ 8          at    5     8
                      no more 3  no more 4..6  low   3     4
                                               high  3     6
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.core.errors import InvalidArgument
from semistream.core.punctuation import Constant, Interval, Listing, Pattern, Punctuation

__all__ = ["KeyMarks", "PunctuatedBatch", "punctuated_batches"]

_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True)
class KeyMarks:
    """Punctuations on the join attribute: no key from ``low[i]`` to ``high[i]`` comes after ``at[i]`` rows.

    NULL is an open end. ``at`` ascends.
    """

    at: _Int64s
    low: pa.Array
    high: pa.Array

    def __len__(self) -> int:
        return self.at.size

    def taken(self, places: _Int64s) -> "KeyMarks":
        """Return some of them, by ascending place."""
        chosen = pa.array(places)
        return KeyMarks(self.at[places], self.low.take(chosen), self.high.take(chosen))

    @property
    def nbytes(self) -> int:
        ends = (self.low,) if self.high is self.low else (self.low, self.high)
        return self.at.nbytes + sum(int(end.nbytes) for end in ends)

    @classmethod
    def none(cls, dtype: pa.DataType) -> "KeyMarks":
        """Return no punctuations, for keys of a type."""
        return _no_marks(dtype)

    @classmethod
    def of_pattern(cls, pattern: Pattern, at: int, dtype: pa.DataType) -> "KeyMarks":
        """Return a pattern of the join attribute as ranges."""
        if isinstance(pattern, Constant):
            lows = highs = [pattern.value]
        elif isinstance(pattern, Listing):
            lows = highs = list(pattern.values)
        elif isinstance(pattern, Interval):
            lows, highs = [pattern.low], [pattern.high]  # type: ignore[list-item]
        else:
            lows = highs = [None]  # type: ignore[list-item]
        try:
            low, high = pa.array(lows, dtype), pa.array(highs, dtype)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
            raise InvalidArgument(f"punctuation {pattern} does not fit a key of type {dtype}: {error}") from None
        if pt.is_integer(dtype) and low.to_pylist() + high.to_pylist() != [*lows, *highs]:
            raise InvalidArgument(f"punctuation {pattern} lies between two keys of type {dtype}: name keys that end")
        return cls(np.full(len(lows), at, dtype=np.int64), low, high)


def _parts(marks: KeyMarks, start: int, stop: int) -> tuple[pa.Array, pa.Array]:
    low = marks.low.slice(start, stop - start)
    return low, low if marks.high is marks.low else marks.high.slice(start, stop - start)


@lru_cache
def _no_marks(dtype: pa.DataType) -> KeyMarks:
    nothing = pa.array([], dtype)
    return KeyMarks(np.empty(0, dtype=np.int64), nothing, nothing)


@dataclass(frozen=True)
class PunctuatedBatch:
    """Rows of one stream, with the punctuations that stand among them."""

    rows: pa.RecordBatch
    marks: KeyMarks

    def __post_init__(self) -> None:
        at = self.marks.at
        if at.size:
            assert (at[1:] >= at[:-1]).all()
            assert 0 <= at[0] <= at[-1] <= self.rows.num_rows

    def __len__(self) -> int:
        return self.rows.num_rows

    @property
    def nbytes(self) -> int:
        """Bytes of rows and punctuations."""
        return int(self.rows.nbytes) + self.marks.nbytes

    @classmethod
    def without_marks(cls, rows: pa.RecordBatch, key_type: pa.DataType) -> "PunctuatedBatch":
        """Return rows without punctuations."""
        return cls(rows, KeyMarks.none(key_type))

    def split(self, count: int) -> tuple["PunctuatedBatch", "PunctuatedBatch"]:
        """Return the first ``count`` rows and the others; a punctuation between them belongs to the first."""
        first = int(np.searchsorted(self.marks.at, count, side="right"))
        marks = self.marks
        before = KeyMarks(marks.at[:first], *_parts(marks, 0, first))
        after = KeyMarks(marks.at[first:] - count, *_parts(marks, first, len(marks)))
        return PunctuatedBatch(self.rows.slice(0, count), before), PunctuatedBatch(self.rows.slice(count), after)


def punctuated_batches(
    elements: Iterable[pa.RecordBatch | Punctuation | PunctuatedBatch], schema: pa.Schema, key: str
) -> Iterator[PunctuatedBatch]:
    """Turn a stream of batches and punctuations into batches that carry the punctuations.

    A punctuation that restricts other attributes than the key excludes no key, and is left out.
    """
    dtype = schema.field(key).type
    for element in elements:
        if isinstance(element, PunctuatedBatch):
            yield element
        elif isinstance(element, Punctuation):
            unknown = sorted(set(element.attributes) - set(schema.names))
            if unknown:
                raise InvalidArgument(f"{element}: the stream has no attribute {unknown[0]!r}, it has {schema.names}")
            if set(element.attributes) <= {key}:
                no_rows = pa.RecordBatch.from_pylist([], schema=schema)
                yield PunctuatedBatch(no_rows, KeyMarks.of_pattern(element.pattern(key), 0, dtype))
        elif isinstance(element, pa.RecordBatch):
            yield PunctuatedBatch.without_marks(element, dtype)
        else:
            raise InvalidArgument(
                f"a stream has a {type(element).__name__} in it: give record batches (table.to_batches()) and "
                "punctuations"
            )
