"""Both streams on their way to the buckets: blobs of tuples, and of punctuations.

A punctuation of one key goes to the bucket of that key. One of a range of keys goes to all buckets, as does the range
that an ordered stream has passed.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument
from semistream.core.punctuated_batch import KeyMarks
from semistream.kernels.arrays import Int64s
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.runtime.spark.columns import relabel
from semistream.runtime.spark.on_executor import running_task
from semistream.runtime.spark.punctuated.plan import PunctuatedPlan
from semistream.runtime.spark.session import blob_bytes, gathered_bytes
from semistream.runtime.spark.stateful.packing import cut_by_bucket, in_portions, pack, packed_row
from semistream.runtime.spark.stateful.turns import state_keys
from semistream.stream_joins.parts.bucket_key import Buckets
from semistream.stream_joins.parts.join_key import Side

__all__ = ["MARKS", "MARK_SCHEMA", "PACKED_COLUMNS", "TUPLES", "Marks", "kind_of", "pack_part"]

PACKED_COLUMNS = "key int, kind int, part int, number bigint, blob binary"
"""A blob: the bucket's state key, the kind of content, the part of the stream, and the blob's number in it."""

MARK_SCHEMA = pa.schema([("low", pa.int64()), ("high", pa.int64())])
"""Punctuations as ranges of codes."""

TUPLES, MARKS = range(2)

_LIMITS = np.iinfo(np.int64)

Marks: TypeAlias = Literal["none", "keys", "ranges"]
"""The punctuations of a stream."""


def kind_of(side: Side, content: int) -> int:
    """Return the number of a blob's kind: tuples or punctuations of a stream."""
    return 2 * side + content


def pack_part(task: tuple[PunctuatedPlan, Side, Marks], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pack one part of a stream; its last columns hold the punctuations. Runs on executors."""
    plan, side, marks = task
    part = running_task().partition
    packing = _Packing(plan, side, part, marks)
    keys = state_keys(plan.buckets)
    for number, (bucket, content, blob) in enumerate(packing.blobs(batches)):
        yield packed_row(blob, number, key=keys[bucket], kind=kind_of(side, content), part=part)


class _Packing:
    """Cuts a part of a stream into the blobs of buckets."""

    def __init__(self, plan: PunctuatedPlan, side: Side, part: int, marks: Marks) -> None:
        self._schema = plan.schemas[side]
        self._side = side
        self._key = plan.key()
        self._buckets = Buckets(plan.buckets)
        self._part = part
        self._marks = marks
        self._arrival = plan.arrivals[side]
        self._furthest: int | None = None
        self._held_bytes, self._most_bytes = gathered_bytes(plan.task_bytes), blob_bytes(plan.task_bytes)

    def blobs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, pa.Buffer]]:
        for batch in in_portions(batches, self._held_bytes):
            yield from self._cut(batch)
        yield from self._cut_order()

    def _cut(self, batch: pa.RecordBatch) -> Iterator[tuple[int, int, pa.Buffer]]:
        columns = len(self._schema)
        rows = batch.select(range(columns))
        if self._marks != "none":
            is_mark = batch.column(columns)
            if is_mark.true_count:
                marks = batch.select([columns + 1, columns + 2]).filter(is_mark)
                yield from self._cut_marks(marks.column(0), marks.column(1))
                rows = rows.filter(pa.compute.invert(is_mark))
        rows = relabel(rows, self._schema)
        codes = self._key.codes(self._side, rows)
        self._note_order(codes)
        ids = self._buckets.of(codes.code)
        for bucket, blob in cut_by_bucket(rows, codes, ids, self._buckets.count, self._part, self._most_bytes):
            yield bucket, TUPLES, blob

    def _cut_marks(self, low: pa.Array, high: pa.Array) -> Iterator[tuple[int, int, pa.Buffer]]:
        if self._marks == "keys" and low.null_count:
            name = self._key.names[self._side]
            raise InvalidArgument(f"a punctuation row has NULL in {name!r}: give it the key that comes no more")
        yield from self._cut_ranges(*self._key.ranges(KeyMarks(np.zeros(len(low), dtype=np.int64), low, high)))

    def _cut_ranges(self, lows: Int64s, highs: Int64s) -> Iterator[tuple[int, int, pa.Buffer]]:
        constant = lows == highs
        of = np.where(constant, self._buckets.of(lows), -1)
        everywhere = np.flatnonzero(~constant)
        for bucket in range(self._buckets.count):
            chosen = np.concatenate([np.flatnonzero(of == bucket), everywhere])
            if chosen.size:
                marks = pa.RecordBatch.from_arrays([lows[chosen], highs[chosen]], schema=MARK_SCHEMA)
                for blob in pack([marks], self._most_bytes):
                    yield bucket, MARKS, blob

    def _note_order(self, codes: KeyCodes) -> None:
        """Follow the furthest key of an ordered stream; within a micro-batch there is no order."""
        here = codes.valid_codes()
        if self._arrival != "any" and here.size:
            furthest = int(here.max() if self._arrival == "ascending" else here.min())
            before = furthest if self._furthest is None else self._furthest
            self._furthest = max(before, furthest) if self._arrival == "ascending" else min(before, furthest)

    def _cut_order(self) -> Iterator[tuple[int, int, pa.Buffer]]:
        """Exclude the keys that no later micro-batch of an ordered stream brings."""
        if self._furthest is None:
            return
        if self._arrival == "ascending":
            low, high = int(_LIMITS.min), self._furthest - 1
        else:
            low, high = self._furthest + 1, int(_LIMITS.max)
        if low <= high:
            yield from self._cut_ranges(np.array([low], dtype=np.int64), np.array([high], dtype=np.int64))
