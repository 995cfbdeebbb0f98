"""The three stages of a join whose state may go to disk (XJoin; S4 ll. 608-630).

::

    in memory       a run probes the state of the other stream
    memory - disk   while nothing comes: tuples on disk of one stream meet those in memory of the other
    clean-up        all pairs of a partition that have not met yet

Every pair leaves once. Whether two tuples have met follows from when each was in memory, from the times at which a
disk part met the memory of the other stream, and from when a partition was last cleaned up:

- both were in memory when the later one came;
- or the one was on disk already when its part met the memory in which the other was;
- or both had come when their partition was cleaned up.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.errors import StateTooLarge
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.sizes import format_bytes
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.xxh64 import SEED, hash_int64
from semistream.stream_joins.disk_parts import DiskParts, PartStore, PastTuples
from semistream.stream_joins.join_key import LEFT, RIGHT, SIDES, Side, other
from semistream.stream_joins.part_files import PartFiles
from semistream.stream_joins.stream_join import StreamJoin

__all__ = ["ThreeStages"]

_PARTITIONS = 64
_FLUSHED_SHARE = 1 / 4  # of the tuples in memory that an overflow flushes at least: finding them looks at all keys
_TUPLE_BYTES = 96  # of a tuple being cleaned up, beside its columns: hash entry, times, code
_READ_PER_TUPLE = 4  # tuples that are read from disk for one that comes, when streams do not pause
_MOST_MEETINGS = 16
_NEVER = np.iinfo(np.int64).max

_Bools = npt.NDArray[np.bool_]
_Int64s = npt.NDArray[np.int64]


class _Times(NamedTuple):
    """When tuples came, and when they left the memory."""

    arrived: _Int64s
    departed: _Int64s


class ThreeStages(StreamJoin):
    """A join that flushes partitions of its state to disk when its memory is full."""

    _clean_up_share = 1 / 8

    def _open(self) -> None:
        self._message_bytes = self._clean_up_bytes // 4
        self.keep_parts_in(PartFiles())
        self._clean_time = np.zeros(_PARTITIONS, dtype=np.int64)
        self._met: dict[tuple[Side, int], list[int]] = {}
        self._taken_at_clean_up = 0

    def keep_parts_in(self, store: PartStore) -> None:
        """Let what goes to disk go into a store, in place of files; only for a join that has done nothing yet."""
        self.parts = DiskParts(self.schemas, _PARTITIONS, self._message_bytes, store)

    def _partition_of(self, codes: _Int64s) -> _Int64s:
        hashes = np.full(codes.size, SEED, dtype=np.uint64)
        hash_int64(codes, hashes)
        partitions: _Int64s = (hashes % np.uint64(_PARTITIONS)).astype(np.int64)  # as `entries_by_hash`
        return partitions

    def _is_on_disk(self, side: Side, codes: _Int64s) -> _Bools:
        """Return for every key whether its partition has tuples of a stream on disk."""
        has = self.parts.has(side)
        return has[self._partition_of(codes)] if has.any() else np.zeros(codes.size, dtype=np.bool_)

    # --- overflow -----------------------------------------------------------------------------------------------

    def _make_space(self) -> None:
        held = sum(len(window) for window in self.state.windows)
        if held == 0:
            raise StateTooLarge(
                f"a tuple is larger than what memory={format_bytes(self.budget_bytes)} leaves for the state of "
                f"{self.name}: give more memory"
            )
        tuples = np.zeros(_PARTITIONS, dtype=np.int64)
        for each in SIDES:
            tuples += self.state.by_key(each).entries_by_hash(_PARTITIONS)
        largest_first = np.argsort(-tuples, kind="stable")
        enough = int(np.searchsorted(np.cumsum(tuples[largest_first]), held * _FLUSHED_SHARE)) + 1
        self._flush(largest_first[:enough])

    def _flush(self, partitions: _Int64s) -> None:
        """Move what is in memory of some partitions to disk."""
        self._now += 1
        is_chosen = np.zeros(_PARTITIONS, dtype=np.bool_)
        is_chosen[partitions] = True
        for side in SIDES:
            codes, _ = self.state.by_key(side).keys_with_at_least(1)
            of = self._partition_of(codes)
            for partition in np.unique(of[is_chosen[of]]).tolist():
                self._flush_keys(side, partition, codes[of == partition])

    def _flush_keys(self, side: Side, partition: int, codes: _Int64s) -> None:
        window = self.state.windows[side]
        slots = window.remove(codes)
        sizes = window.store.sizes(slots)
        per_row = window.store.fixed_bytes + (0.0 if sizes is None or not slots.size else float(sizes.mean()))
        step = max(1, int(self._message_bytes / max(1.0, per_row)))
        for start in range(0, slots.size, step):
            some = slots[start : start + step]
            rows = pa.RecordBatch.from_arrays(window.store.take(some), schema=self.schemas[side])
            departed = np.full(some.size, self._now, dtype=np.int64)
            self.parts.put(side, partition, PastTuples(rows, window.number[some], departed, window.matched[some]))

    # --- memory - disk ------------------------------------------------------------------------------------------

    def _meet_memory(self) -> Iterator[PunctuatedBatch]:
        """Let the disk part that has not met the memory of the other stream for longest do so, if runs came since."""
        # Whether a left tuple on disk has matched is only kept up when its partition is cleaned up.
        sides = SIDES if self.how == "inner" else (RIGHT,)
        candidates = [
            (self._last_met(side, partition), -self.parts.rows(side, partition), side, partition)
            for side in sides
            for partition in self.parts.used
            if self.parts.rows(side, partition) and self._last_met(side, partition) < self._last_run
        ]
        if not candidates:
            return
        _, _, side, partition = min(candidates)
        if len(self._met.get((side, partition), ())) >= _MOST_MEETINGS:  # all of which every pair is held against
            yield from self._clean_up([partition])
            return
        self._now += 1
        window, by_key = self.state.windows[other(side)], self.state.by_key(other(side))
        for tuples in self.parts.read(side, partition):
            found, cursors = by_key.probe(self.key.codes(side, tuples.rows).code)
            at = 0
            while at < found.size:
                at, count = by_key.pairs(found, cursors, at, self._rows.pair_rows, self._rows.pair_slots)
                own, slots = self._rows.pair_rows[:count], self._rows.pair_slots[:count]
                in_memory = _Times(window.number[slots], np.full(count, _NEVER))
                new = ~self._have_met(partition, side, _Times(tuples.arrived[own], tuples.departed[own]), in_memory)
                own, slots = own[new], slots[new]
                window.matched[slots] = True
                for portion in self._portions(tuples.rows, own, window.store.fixed_bytes, window.store.sizes(slots)):
                    columns = tuples.rows.take(pa.array(own[portion])).columns
                    yield self._deliver(self._rows.pairs(side, columns, window.store.take(slots[portion])))
        self._met.setdefault((side, partition), []).append(self._now)

    def _last_met(self, side: Side, partition: int) -> int:
        return max(int(self._clean_time[partition]), *self._met.get((side, partition), [0]))

    def _have_met(self, partition: int, side: Side, own: _Times, opposite: _Times) -> _Bools:
        """Return which pairs, of a tuple of a stream and one of the other, have left before."""
        later = np.maximum(own.arrived, opposite.arrived)
        met: _Bools = (later < np.minimum(own.departed, opposite.departed)) | (later <= self._clean_time[partition])
        for on_disk, disk, memory in ((side, own, opposite), (other(side), opposite, own)):
            for time in self._met.get((on_disk, partition), []):
                met |= (disk.departed <= time) & (memory.arrived <= time) & (time < memory.departed)
        return met

    # --- clean-up -----------------------------------------------------------------------------------------------

    def _comes_no_more(self, side: Side, codes: _Int64s) -> _Bools:
        """Return which keys a stream is known to send no more."""
        return np.zeros(codes.size, dtype=np.bool_)

    def _is_over_on_disk(self, side: Side, codes: _Int64s, matched: _Bools) -> _Bools:
        """Return which tuples of a partition, all of whose pairs have met, can match nothing that comes."""
        return self._comes_no_more(other(side), codes)

    def _to_clean_up(self) -> list[int]:
        """Return the partitions in which tuples may not have met, first the one that waits for longest."""
        waiting = [partition for partition in self.parts.used if self._clean_time[partition] < self._last_run]
        return sorted(waiting, key=self._clean_time.__getitem__)

    def _clean_up_in_turn(self) -> Iterator[PunctuatedBatch]:
        """Clean up the partition that waits for longest, once tuples have come for those that are read for it.

        Streams that never pause leave no time for the last stage, and what is on disk keeps the rest from being purged.
        """
        waiting = self._to_clean_up()[:1]
        taken = self.metrics.left_in + self.metrics.right_in
        rows = sum(self.parts.rows(side, partition) for side in SIDES for partition in waiting)
        if waiting and _READ_PER_TUPLE * (taken - self._taken_at_clean_up) >= rows:
            self._taken_at_clean_up = taken
            yield from self._clean_up(waiting)

    def _clean_up(self, partitions: list[int], *, at_the_end: bool = False) -> Iterator[PunctuatedBatch]:
        """Let all pairs of partitions out that have not met, and forget the tuples that can match nothing any more."""
        if partitions:
            self._flush(np.array(partitions))  # of all at once: it looks at all keys in memory
        for partition in partitions:
            yield from self._clean_up_flushed(partition, at_the_end)

    def _clean_up_flushed(self, partition: int, at_the_end: bool) -> Iterator[PunctuatedBatch]:
        kept = self.parts.replacing(partition)
        right_matched = [tuples.matched for tuples in self.parts.read(RIGHT, partition)]  # a byte of each
        for left in self._chunks(LEFT, partition):
            codes = self.key.codes(LEFT, left.rows).code
            by_key = FifoMultimap(max(1, len(left)))
            by_key.insert(codes)  # slots are positions: they are taken in order
            for right, matched in zip(self.parts.read(RIGHT, partition), right_matched, strict=True):
                yield from self._pairs_not_met(partition, left, right, matched, by_key)
            over = self._is_over_on_disk(LEFT, codes, left.matched) | at_the_end
            if self.how == "left":
                yield from self._left_alone(left.rows.filter(pa.array(over & ~left.matched)).columns)
            self.metrics.purged += int(over.sum())
            kept.put(LEFT, left.chosen(~over))
        for right, matched in zip(self.parts.read(RIGHT, partition), right_matched, strict=True):
            over = self._is_over_on_disk(RIGHT, self.key.codes(RIGHT, right.rows).code, matched) | at_the_end
            self.metrics.purged += int(over.sum())
            kept.put(RIGHT, PastTuples(right.rows, right.arrived, right.departed, matched).chosen(~over))
        kept.finish()
        self._clean_time[partition] = self._now
        for side in SIDES:
            self._met.pop((side, partition), None)

    def _pairs_not_met(
        self, partition: int, left: PastTuples, right: PastTuples, right_matched: _Bools, by_key: FifoMultimap
    ) -> Iterator[PunctuatedBatch]:
        found, cursors = by_key.probe(self.key.codes(RIGHT, right.rows).code)
        at = 0
        while at < found.size:
            at, count = by_key.pairs(found, cursors, at, self._rows.pair_rows, self._rows.pair_slots)
            own, lefts = self._rows.pair_rows[:count], self._rows.pair_slots[:count]
            left.matched[lefts] = True
            right_matched[own] = True
            right_times = _Times(right.arrived[own], right.departed[own])
            new = ~self._have_met(partition, RIGHT, right_times, _Times(left.arrived[lefts], left.departed[lefts]))
            own, lefts = own[new], lefts[new]
            left_row_bytes = int(left.rows.nbytes / max(1, len(left)))
            for portion in self._portions(right.rows, own, left_row_bytes, None):
                columns = right.rows.take(pa.array(own[portion])).columns
                yield self._deliver(self._rows.pairs(RIGHT, columns, left.rows.take(pa.array(lefts[portion])).columns))

    def _chunks(self, side: Side, partition: int) -> Iterator[PastTuples]:
        """Yield the tuples of a disk part, as many at a time as the clean-up may hold."""
        held: list[PastTuples] = []
        held_bytes = 0
        for tuples in self.parts.read(side, partition):
            nbytes = tuples.rows.nbytes + _TUPLE_BYTES * len(tuples)
            if held and held_bytes + nbytes > self._clean_up_bytes // 2:
                yield PastTuples.joined(held)
                held, held_bytes = [], 0
            held.append(tuples)
            held_bytes += nbytes
        if held:
            yield PastTuples.joined(held)

    def _end(self) -> Iterator[PunctuatedBatch]:
        yield from self._clean_up(self.parts.used, at_the_end=True)
        for side in SIDES:
            codes, _ = self.state.by_key(side).keys_with_at_least(1)
            yield from self._remove(side, codes)

    def settle(self) -> Iterator[PunctuatedBatch]:
        """Let all pairs meet."""
        yield from super().settle()
        yield from self._clean_up(self._to_clean_up())

    def _state_header(self) -> dict[str, Any]:
        met = [[side, partition, times] for (side, partition), times in self._met.items()]
        lasting = [place for place in self.parts.references() if place[-1] is not None]
        return {**super()._state_header(), "clean_time": self._clean_time.tolist(), "met": met, "parts": lasting}

    def _state_portions(self, most_bytes: int) -> Iterator[tuple[str, pa.RecordBatch]]:
        yield from super()._state_portions(most_bytes)
        for side, partition, _, reference in self.parts.references():
            if reference is None:
                for message in self.parts.messages(side, partition):
                    yield f"part {side} {partition}", message

    def _set_header(self, header: dict[str, Any]) -> None:
        super()._set_header(header)
        self._clean_time[:] = header["clean_time"]
        self._met = {(side, partition): times for side, partition, times in header["met"]}
        for side, partition, rows, reference in header["parts"]:
            self.parts.adopt(side, partition, rows, reference)

    def _put_back(self, kind: str, place: list[int], rows: pa.RecordBatch) -> None:
        if kind == "part":
            self.parts.put_message(SIDES[place[0]], place[1], rows)
        else:
            super()._put_back(kind, place, rows)

    def close(self) -> None:
        """Remove the files."""
        self.parts.close()
