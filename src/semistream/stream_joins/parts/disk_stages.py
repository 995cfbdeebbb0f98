"""The memory-disk and clean-up stages of a join whose state may go to disk (XJoin; S4, section 5.2).

::

    in memory       a run probes the state of the other stream (`semistream.stream_joins.parts.memory_state`)
    memory - disk   while nothing comes: tuples on disk of one stream meet those in memory of the other
    clean-up        all pairs of a partition that have not met yet

Every pair leaves once. Whether two tuples have met follows from when each was in memory, from the times at which a
disk part met the memory of the other stream, and from when a partition was last cleaned up:

- both were in memory when the later one came;
- or the one was on disk already when its part met the memory in which the other was;
- or both had come when their partition was cleaned up.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from semistream.core.errors import StateTooLarge
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.saved_state import MOST, SavedState
from semistream.core.sizes import format_bytes
from semistream.kernels.arrays import Bools, Int32s, Int64s
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.xxh64 import SEED, hash_int64
from semistream.stream_joins.parts.disk_parts import DiskParts, PartStore, PastTuples
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, SIDES, Side, other
from semistream.stream_joins.parts.memory_state import MemoryState
from semistream.stream_joins.parts.part import Part

__all__ = ["DiskStages"]

_PARTITIONS = 64
_FLUSHED_SHARE = 1 / 4  # of the tuples in memory that an overflow flushes at least: finding them looks at all keys
_TUPLE_BYTES = 96  # of a tuple being cleaned up, beside its columns: hash entry, times, code
_READ_PER_TUPLE = 4  # tuples that are read from disk for one that comes, when streams do not pause
_MOST_MEETINGS = 16
_NEVER = np.iinfo(np.int64).max


class _Times(NamedTuple):
    arrived: Int64s
    departed: Int64s


class DiskStages(Part):
    """Flushes partitions of the state to disk, and joins them later.

    ``is_over`` returns which tuples of a stream, by codes and by whether they have matched, can match nothing that
    comes, if all their pairs have met. ``flushes`` counts how often tuples moved to disk: a clean-up begins so, too.
    """

    def __init__(
        self,
        state: MemoryState,
        clean_up_bytes: int,
        is_over: Callable[[Side, Int64s, Bools], Bools],
        store: PartStore | None = None,
    ) -> None:
        self._state = state
        self._key = state.key
        self._how = state.how
        self._results = state.results
        self._metrics = state.metrics
        self._clean_up_bytes = clean_up_bytes
        self._is_over = is_over
        self.parts = DiskParts(state.key.schemas, _PARTITIONS, clean_up_bytes // 4, store)
        self.flushes = 0
        self._clean_time = np.zeros(_PARTITIONS, dtype=np.int64)
        self._met: dict[tuple[Side, int], list[int]] = {}
        self._taken_at_clean_up = 0

    def holds(self, side: Side, codes: Int64s) -> Bools:
        """Return for every key whether its partition has tuples of a stream on disk (S4, Figure 7: hasDiskPart)."""
        has = self.parts.has(side)
        return has[_partition_of(codes)] if has.any() else np.zeros(codes.size, dtype=np.bool_)

    def make_space(self) -> None:
        held = self._state.held
        if held == 0:
            raise StateTooLarge(
                f"a tuple is larger than the {format_bytes(self._state.state_bytes)} that memory= leaves for the "
                "state: give more memory"
            )
        left, right = (self._state.by_key(side).entries_by_hash(_PARTITIONS) for side in SIDES)
        tuples = left + right
        largest_first = np.argsort(-tuples, kind="stable")
        enough = int(np.searchsorted(np.cumsum(tuples[largest_first]), held * _FLUSHED_SHARE)) + 1
        self._flush(largest_first[:enough])

    def _flush(self, partitions: Int64s) -> None:
        self._state.time.tick()
        self.flushes += 1
        is_chosen = np.zeros(_PARTITIONS, dtype=np.bool_)
        is_chosen[partitions] = True
        for side in SIDES:
            codes = self._state.keys(side)
            of = _partition_of(codes)
            for partition in np.unique(of[is_chosen[of]]).tolist():
                self._flush_keys(side, partition, codes[of == partition])

    def _flush_keys(self, side: Side, partition: int, codes: Int64s) -> None:
        window = self._state.windows[side]
        slots = window.remove(codes)
        step = max(1, int(self.parts.message_bytes / max(1.0, self._state.row_bytes(side, slots))))
        for start in range(0, slots.size, step):
            some = slots[start : start + step]
            rows = pa.RecordBatch.from_arrays(window.store.take(some), schema=self._key.schemas[side])
            departed = np.full(some.size, self._state.time.now, dtype=np.int64)
            self.parts.put(side, partition, PastTuples(rows, window.number[some], departed, window.matched[some]))

    def meet_memory(self) -> Iterator[PunctuatedBatch]:
        """Let the disk part that has not met the memory of the other stream for longest do so, if runs came since."""
        # Whether a left tuple on disk has matched is only kept up when its partition is cleaned up.
        sides = SIDES if self._how == "inner" else (RIGHT,)
        candidates = [
            (self._last_met(side, partition), -self.parts.rows(side, partition), side, partition)
            for side in sides
            for partition in self.parts.used
            if self.parts.rows(side, partition) and self._last_met(side, partition) < self._state.time.last_run
        ]
        if not candidates:
            return
        _, _, side, partition = min(candidates)
        if len(self._met.get((side, partition), ())) >= _MOST_MEETINGS:  # all of which every pair is held against
            yield from self.clean_up([partition])
            return
        now = self._state.time.tick()
        opposite = other(side)
        window = self._state.windows[opposite]
        for tuples in self.parts.read(side, partition):
            codes = self._key.codes(side, tuples.rows).code
            for own, slots, _ in self._results.pairs(self._state.by_key(opposite), codes):
                in_memory = _Times(window.number[slots], np.full(slots.size, _NEVER))
                new = ~self._have_met(partition, side, _Times(tuples.arrived[own], tuples.departed[own]), in_memory)
                own, slots = own[new], slots[new]
                window.matched[slots] = True
                row_bytes = self._state.row_bytes(opposite, slots)
                yield from self._results.joined(side, tuples.rows, own, slots, window.store.take, row_bytes)
        self._met.setdefault((side, partition), []).append(now)

    def _last_met(self, side: Side, partition: int) -> int:
        return max(int(self._clean_time[partition]), *self._met.get((side, partition), [0]))

    def _have_met(self, partition: int, side: Side, own: _Times, opposite: _Times) -> Bools:
        """Return which pairs, of a tuple of a stream and one of the other, have left before."""
        later = np.maximum(own.arrived, opposite.arrived)
        met: Bools = (later < np.minimum(own.departed, opposite.departed)) | (later <= self._clean_time[partition])
        for on_disk, disk, memory in ((side, own, opposite), (other(side), opposite, own)):
            for time in self._met.get((on_disk, partition), []):
                met |= (disk.departed <= time) & (memory.arrived <= time) & (time < memory.departed)
        return met

    def to_clean_up(self) -> list[int]:
        """Return the partitions in which tuples may not have met, first the one that waits for longest."""
        last_run = self._state.time.last_run
        waiting = [partition for partition in self.parts.used if self._clean_time[partition] < last_run]
        return sorted(waiting, key=self._clean_time.__getitem__)

    def clean_up_in_turn(self) -> Iterator[PunctuatedBatch]:
        """Clean up the partition that waits for longest, once tuples have come for those that are read for it.

        Streams that never pause leave no time for the last stage, and tuples on disk keep others from being purged.
        """
        waiting = self.to_clean_up()[:1]
        taken = self._metrics.left_in + self._metrics.right_in
        rows = sum(self.parts.rows(side, partition) for side in SIDES for partition in waiting)
        if waiting and _READ_PER_TUPLE * (taken - self._taken_at_clean_up) >= rows:
            self._taken_at_clean_up = taken
            yield from self.clean_up(waiting)

    def clean_up(self, partitions: list[int], *, at_the_end: bool = False) -> Iterator[PunctuatedBatch]:
        """Let all pairs of partitions out that have not met, and forget the tuples that can match nothing any more."""
        if partitions:
            self._flush(np.array(partitions))  # of all at once: it looks at all keys in memory
        for partition in partitions:
            yield from self._clean_up_flushed(partition, at_the_end)

    def _clean_up_flushed(self, partition: int, at_the_end: bool) -> Iterator[PunctuatedBatch]:
        right_matched = [tuples.matched for tuples in self.parts.read(RIGHT, partition)]  # a byte of each
        for left in self._chunks(LEFT, partition):
            codes = self._key.codes(LEFT, left.rows).code
            by_key = FifoMultimap(max(1, len(left)))
            by_key.insert(codes)  # slots are positions: they are taken in order
            for right, matched in zip(self.parts.read(RIGHT, partition), right_matched, strict=True):
                yield from self._pairs_not_met(partition, left, right, matched, by_key)
            over = self._is_over(LEFT, codes, left.matched) | at_the_end
            if self._how == "left":
                yield from self._results.left_alone(left.rows.filter(pa.array(over & ~left.matched)).columns)
            self._metrics.purged += int(over.sum())
            self.parts.put(LEFT, partition, left.chosen(~over), new=True)
        for right, matched in zip(self.parts.read(RIGHT, partition), right_matched, strict=True):
            over = self._is_over(RIGHT, self._key.codes(RIGHT, right.rows).code, matched) | at_the_end
            self._metrics.purged += int(over.sum())
            kept = replace(right, matched=matched).chosen(~over)
            self.parts.put(RIGHT, partition, kept, new=True)
        self.parts.replace(partition)
        self._clean_time[partition] = self._state.time.now
        for side in SIDES:
            self._met.pop((side, partition), None)

    def _pairs_not_met(
        self, partition: int, left: PastTuples, right: PastTuples, right_matched: Bools, by_key: FifoMultimap
    ) -> Iterator[PunctuatedBatch]:
        def take_left(some: Int32s) -> list[pa.Array]:
            columns: list[pa.Array] = left.rows.take(pa.array(some)).columns
            return columns

        left_row_bytes = left.rows.nbytes / max(1, len(left))
        for own, lefts, _ in self._results.pairs(by_key, self._key.codes(RIGHT, right.rows).code):
            left.matched[lefts] = True
            right_matched[own] = True
            right_times = _Times(right.arrived[own], right.departed[own])
            new = ~self._have_met(partition, RIGHT, right_times, _Times(left.arrived[lefts], left.departed[lefts]))
            yield from self._results.joined(RIGHT, right.rows, own[new], lefts[new], take_left, left_row_bytes)

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

    def components(self) -> dict[str, int]:
        return {"clean-up": self._clean_up_bytes}

    def state(self) -> SavedState:
        met = [[side, partition, times] for (side, partition), times in self._met.items()]
        saved = SavedState({"met": met, "taken_at_clean_up": self._taken_at_clean_up})
        saved.put("clean_time", self._clean_time)
        saved.put_part("parts", self.parts.state())
        return saved

    def set_state(self, saved: SavedState) -> None:
        for side, partition, times in saved.header["met"]:
            is_sound = all(type(number) is int and 0 <= number <= MOST for number in (side, partition, *times))
            saved.require(is_sound and 0 < len(times) <= _MOST_MEETINGS, f"met={[side, partition, times]!r}")
            self._met[side, partition] = times
        self._taken_at_clean_up = saved.whole_number("taken_at_clean_up")
        saved.fill("clean_time", self._clean_time)
        self.parts.set_state(saved.part("parts"))

    def close(self) -> None:
        self.parts.close()

    def check(self) -> None:
        self.parts.check()
        assert (self._clean_time <= self._state.time.now).all()
        assert all(len(times) <= _MOST_MEETINGS for times in self._met.values())


def _partition_of(codes: Int64s) -> Int64s:
    hashes = np.full(codes.size, SEED, dtype=np.uint64)
    hash_int64(codes, hashes)
    partitions: Int64s = (hashes % np.uint64(_PARTITIONS)).astype(np.int64)  # as `entries_by_hash`
    return partitions
