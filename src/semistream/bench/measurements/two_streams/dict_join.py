"""MJoin against a plain Python symmetric join, a dict of lists for each stream, both in memory on auctions."""

import gc
import time
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from semistream.bench.framework.measurement import MACHINE, Context, Point, in_turns
from semistream.bench.measurements.two_streams.settings import make_join
from semistream.bench.measurements.two_streams.stream_pairs import StreamPair, stream_pair
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.stream_joins.parts.join_key import SIDES

__all__ = ["DictJoin"]

_Rows = list[tuple[int, list[tuple[Any, ...]]]]


@dataclass(frozen=True, kw_only=True)
class DictJoin:
    """MJoin and plain Python in turns; both get the streams in the order of their time, and build every result."""

    auctions: int
    repeats: int

    @property
    def name(self) -> str:
        return "memory, auctions"

    @property
    def weight(self) -> float:
        return 1.0 + self.auctions * self.repeats * 3e-5

    def run(self, context: Context) -> list[Point]:
        pair = stream_pair("auctions", self.auctions, context.seed)
        rows = _python_rows(pair)
        _mjoin_s(stream_pair("auctions", 100, context.seed))  # compiles
        sides = {
            "MJoin": partial(_mjoin_s, pair),
            "dicts of lists": partial(_dict_join_s, rows, collects=True),
            "dicts of lists, no garbage collection": partial(_dict_join_s, rows, collects=False),
        }
        found = in_turns(sides, self.repeats, lambda message: context.report(f"{self.name}: {message}"))
        outputs = sum(len(batch) for batch in pair.batches[1])
        points = []
        for series, all_s in found.items():
            seconds, tuples = median(all_s), pair.num_tuples
            details = {"us_per_tuple": seconds / tuples * 1e6, "tuples": tuples, "all_s": all_s}
            points.append(Point(series, outputs, {MACHINE: seconds}, details, self.name))
        return points


def _by_time(pair: StreamPair) -> list[tuple[int, PunctuatedBatch]]:
    """Return all batches with their sides, the left ones where their time has come."""
    places = [
        (number / len(batches), side, batch)
        for side, batches in enumerate(pair.batches)
        for number, batch in enumerate(batches)
    ]
    places.sort(key=lambda place: place[:2])
    return [(side, batch) for _, side, batch in places]


def _mjoin_s(pair: StreamPair) -> float:
    op = make_join("chosen for output", pair)
    started = time.perf_counter()
    outputs = 0
    for side, rest in _by_time(pair):
        while (taken := op.offer(SIDES[side], rest)) < len(rest):
            rest = rest.split(taken)[1]
            outputs += sum(result.rows.num_rows for result in op.step())
        outputs += sum(result.rows.num_rows for result in op.step())
    outputs += sum(result.rows.num_rows for result in op.finish())
    seconds = time.perf_counter() - started
    assert outputs == sum(len(batch) for batch in pair.batches[1]), "every bid has one auction"
    op.close()
    return seconds


def _python_rows(pair: StreamPair) -> _Rows:
    rows = []
    for side, batch in _by_time(pair):
        columns = [column.to_pylist() for column in batch.rows.columns]
        rows.append((side, list(zip(*columns, strict=True))))
    return rows


def _dict_join_s(rows: _Rows, *, collects: bool) -> float:
    gc.collect()
    if not collects:
        gc.disable()  # how much of its time the many small objects of the plain join cost
    try:
        started = time.perf_counter()
        states: tuple[dict[Any, list[tuple[Any, ...]]], dict[Any, list[tuple[Any, ...]]]] = ({}, {})
        outputs = 0
        for side, batch in rows:
            out: list[tuple[Any, ...]] = []  # whoever takes the results lets go of them, here as with MJoin
            mine, others = states[side], states[1 - side]
            for row in batch:
                key = row[0]
                for match in others.get(key, ()):
                    out.append(row + match)
                mine.setdefault(key, []).append(row)
            outputs += len(out)
        assert outputs == sum(len(batch) for side, batch in rows if side == 1), "every bid has one auction"
        return time.perf_counter() - started
    finally:
        gc.enable()
