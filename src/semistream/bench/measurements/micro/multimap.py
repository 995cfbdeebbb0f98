"""The multi-map kernels against their plain twins, with uniform keys and with one key that has 5% of the tuples."""

import gc
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np

from semistream.bench.framework.measurement import VALUE, Context, Point, in_turns
from semistream.kernels.arrays import Int32s, Int64s
from semistream.kernels.hashing.multimap import FifoMultimap

__all__ = ["OPERATIONS", "MultimapTimes", "PlainFifoMultimap"]

OPERATIONS = ("first fill", "insert", "probe, hits", "probe, misses", "count", "expire", "delete")
"""The measured operations, at the places 0, 1, 2 and so on of the x axis."""

_HOT_SHARES = {"uniform keys": 0.0, "one key with 5%": 0.05}

_Times = dict[str, float]  # nanoseconds per tuple, by operation


class PlainFifoMultimap:
    """The plain twin of `FifoMultimap`: the same contract in a dict and lists."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._entries: dict[int, deque[int]] = {}
        self._queue: OrderedDict[int, int] = OrderedDict()
        self._free = deque(range(capacity))

    def __len__(self) -> int:
        return len(self._queue)

    def insert(self, codes: Int64s) -> Int32s:
        slots = []
        for code in codes.tolist():
            slot = self._free.popleft()
            self._queue[slot] = code
            self._entries.setdefault(code, deque()).append(slot)
            slots.append(slot)
        return np.array(slots, dtype=np.int32)

    def probe(self, codes: Int64s) -> tuple[Int32s, Int32s]:
        rows, firsts = [], []
        for row, code in enumerate(codes.tolist()):
            entries = self._entries.get(code)
            if entries:
                rows.append(row)
                firsts.append(entries[0])
        return np.array(rows, dtype=np.int32), np.array(firsts, dtype=np.int32)

    def count(self, codes: Int64s) -> Int32s:
        return np.array([len(self._entries.get(code, ())) for code in codes.tolist()], dtype=np.int32)

    def expire(self, count: int) -> Int32s:
        slots = []
        for _ in range(count):
            slot, code = self._queue.popitem(last=False)
            entries = self._entries[code]
            entries.popleft()
            if not entries:
                del self._entries[code]
            self._free.append(slot)
            slots.append(slot)
        return np.array(slots, dtype=np.int32)

    def delete(self, codes: Int64s) -> Int32s:
        slots: list[int] = []
        for code in codes.tolist():
            slots += self._entries.pop(code, ())
        for slot in slots:
            del self._queue[slot]
            self._free.append(slot)
        return np.array(slots, dtype=np.int32)


class _Keys(NamedTuple):
    """Key codes of one distribution: a full map, an eighth of it to work with, and keys to delete."""

    fill: Int64s
    portion: Int64s
    absent: Int64s
    deleted: Int64s


@dataclass(frozen=True, kw_only=True)
class MultimapTimes:
    """Nanoseconds per tuple of every operation, for both distributions of keys."""

    entries: int
    plain_entries: int  # of the plain twin, which is slow to fill
    repeats: int

    @property
    def name(self) -> str:
        return "multimap"

    @property
    def weight(self) -> float:
        return 3.0 + 2e-6 * self.repeats * (self.entries + 8 * self.plain_entries)

    def run(self, context: Context) -> list[Point]:
        _times(FifoMultimap, _keys(1000, hot_share=0.05, seed=context.seed))  # compiles
        makers: dict[str, tuple[Callable[[int], FifoMultimap | PlainFifoMultimap], int]] = {
            "compiled": (FifoMultimap, self.entries),
            "plain Python": (PlainFifoMultimap, self.plain_entries),
        }
        sides = {
            f"{series}, {distribution}": partial(_times, make, _keys(entries, hot_share, context.seed))
            for distribution, hot_share in _HOT_SHARES.items()
            for series, (make, entries) in makers.items()
        }
        points = []
        for side, found in in_turns(sides, self.repeats, context.report).items():
            series, _, distribution = side.partition(", ")
            for x, operation in enumerate(OPERATIONS):
                all_ns = [times[operation] for times in found]
                details = {"entries": makers[series][1], "all_ns_per_tuple": all_ns}
                points.append(Point(series, x, {VALUE: median(all_ns)}, details, f"multi-map, {distribution}"))
        return points


def _keys(entries: int, hot_share: float, seed: int) -> _Keys:
    # As many keys as entries: about as many tuples per key as a stream window has over a master table.
    rng = np.random.default_rng(seed)
    hot_key = entries

    def draw(count: int) -> Int64s:
        codes = rng.integers(0, entries, size=count, dtype=np.int64)
        codes[rng.random(count) < hot_share] = hot_key
        return codes

    fill = draw(entries)
    some_keys = rng.permutation(entries)[: max(1, entries // 8)]
    deleted = np.array([hot_key]) if hot_share else some_keys
    portion = draw(max(1, entries // 8))
    absent = rng.integers(2 * entries, 2**62, size=portion.size, dtype=np.int64)
    return _Keys(fill, portion, absent, deleted)


def _times(make: Callable[[int], FifoMultimap | PlainFifoMultimap], keys: _Keys) -> _Times:
    multimap = make(keys.fill.size)
    portion = keys.portion.size
    times: _Times = {}

    def measure(operation: str, tuples: int, work: Callable[[], object]) -> None:
        started_ns = time.perf_counter_ns()
        work()
        times[operation] = (time.perf_counter_ns() - started_ns) / tuples

    # A collection would cost the plain twin, with its many small objects, more than the kernels.
    gc.collect()
    gc.disable()
    try:
        measure("first fill", keys.fill.size, lambda: multimap.insert(keys.fill))
        measure("expire", portion, lambda: multimap.expire(portion))
        # Into memory that was in use before, as in a window at work.
        measure("insert", portion, lambda: multimap.insert(keys.portion))
        measure("probe, hits", portion, lambda: multimap.probe(keys.portion))
        measure("probe, misses", portion, lambda: multimap.probe(keys.absent))
        measure("count", portion, lambda: multimap.count(keys.portion))
        before = len(multimap)
        measure("delete", 1, lambda: multimap.delete(keys.deleted))
    finally:
        gc.enable()
    times["delete"] /= max(1, before - len(multimap))
    return times
