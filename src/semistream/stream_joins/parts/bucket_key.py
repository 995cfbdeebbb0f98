"""The join attribute inside one of several buckets, in codes that lie close together again.

Keys are dealt to buckets in blocks of neighbouring codes, one of each block to each bucket, starting where the hash of
the block says::

    codes     0 1 2 3 │ 4 5 6 7 │ 8 ...      4 buckets
    bucket    2 3 0 1 │ 1 2 3 0 │ ...
    block     0 0 0 0 │ 1 1 1 1 │ 2 ...  ◄── the code of a key inside its bucket

Every bucket gets one key of each block, so the block's number tells it apart from all others in there; and when keys
come to an end one after the other, their block numbers do too, and punctuated ranges grow together. With a plain hash
they would never. Keys that are all multiples of something still spread over all buckets.
"""

import numpy as np
import pyarrow as pa

from semistream.core.punctuated_batch import KeyMarks
from semistream.core.semantics import On
from semistream.kernels.arrays import Int64s
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.kernels.keys.xxh64 import SEED, hash_int64
from semistream.stream_joins.parts.join_key import JoinKey, Side

__all__ = ["BucketKey", "Buckets"]


class Buckets:
    def __init__(self, count: int) -> None:
        self.count = count

    def of(self, codes: Int64s) -> Int64s:
        blocks = codes // self.count
        return (codes - blocks * self.count + self._first(blocks)) % self.count

    def blocks(self, codes: Int64s) -> Int64s:
        """Return the code of each inside its bucket."""
        return codes // self.count

    def codes(self, bucket: int, blocks: Int64s) -> Int64s:
        return blocks * self.count + self._place(bucket, blocks)

    def block_ranges(self, bucket: int, lows: Int64s, highs: Int64s) -> tuple[Int64s, Int64s]:
        """Return the blocks whose code of a bucket lies in each range of codes; the first is after the last if none."""
        first, last = self.blocks(lows), self.blocks(highs)
        # Places in a block are compared, not codes: the outermost blocks begin and end beyond all codes.
        first = first + (self._place(bucket, first) < lows - first * self.count)
        last = last - (self._place(bucket, last) > highs - last * self.count)
        return first, last

    def _place(self, bucket: int, blocks: Int64s) -> Int64s:
        place: Int64s = (bucket - self._first(blocks)) % self.count
        return place

    def _first(self, blocks: Int64s) -> Int64s:
        hashes = np.full(blocks.size, SEED, dtype=np.uint64)
        hash_int64(np.ascontiguousarray(blocks), hashes)
        return (hashes % np.uint64(self.count)).astype(np.int64)


class BucketKey(JoinKey):
    def __init__(self, left: pa.Schema, right: pa.Schema, on: On, bucket: int, buckets: Buckets) -> None:
        super().__init__(left, right, on)
        self._bucket = bucket
        self._buckets = buckets

    def codes(self, side: Side, rows: pa.RecordBatch) -> KeyCodes:
        codes = super().codes(side, rows)
        return KeyCodes(self._buckets.blocks(codes.code), codes.valid)

    def ranges(self, marks: KeyMarks) -> tuple[Int64s, Int64s]:
        """Return the blocks that each punctuation excludes; the first is after the last for one that excludes none."""
        return self._buckets.block_ranges(self._bucket, *super().ranges(marks))

    def marks(self, lows: Int64s, highs: Int64s) -> KeyMarks:
        """Return punctuations that are true of this bucket, not of the others."""
        return super().marks(self._buckets.codes(self._bucket, lows), self._buckets.codes(self._bucket, highs))
