"""MJoin against a plain Python symmetric join, a dict of lists for each stream, both in memory on auctions."""

import gc
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from semistream.bench.punctuated.settings import chosen, make_join
from semistream.bench.punctuated.spec import PunctuatedSpec
from semistream.bench.punctuated.stream_pairs import StreamPair, stream_pair
from semistream.bench.result_file import Entry
from semistream.stream_joins.join_key import SIDES

__all__ = ["bench_memory"]

_TARGET = 5.0

_Rows = list[tuple[int, list[tuple[Any, ...]]]]


def bench_memory(spec: PunctuatedSpec, report: Callable[[str], None]) -> list[Entry]:
    """Return the speed-up of MJoin; both get the streams in the order of their time, and build every result."""
    pair = stream_pair("auctions", spec.memory_auctions, spec.seed)
    rows = _python_rows(pair)
    _mjoin_s(stream_pair("auctions", 100, spec.seed))  # compiles
    ours_s, plain_s, uncollected_s = [], [], []
    for repeat in range(spec.repeats):
        report(f"memory: run {repeat + 1} of {spec.repeats}")
        ours_s.append(_mjoin_s(pair))
        plain_s.append(_dict_join_s(rows, collects=True))
        uncollected_s.append(_dict_join_s(rows, collects=False))
    details = {
        "mjoin_us_per_tuple": median(ours_s) / pair.num_tuples * 1e6,
        "dict_us_per_tuple": median(plain_s) / pair.num_tuples * 1e6,
        "dict_without_garbage_collection_us_per_tuple": median(uncollected_s) / pair.num_tuples * 1e6,
        "tuples": pair.num_tuples,
        "all_mjoin_s": ours_s,
        "all_dict_s": plain_s,
    }
    return [
        Entry(
            "MJoin against dicts of lists",
            median(plain_s) / median(ours_s),
            _TARGET,
            "at least",
            details,
            "memory: time per tuple of a symmetric join in plain Python / of MJoin",
        )
    ]


def _in_turns(pair: StreamPair) -> list[tuple[int, int]]:
    """Return side and number of every batch, the left ones where their time has come."""
    lefts, rights = (len(batches) for batches in pair.batches)
    places = [((number / lefts, 0), number) for number in range(lefts)]
    places += [((number / rights, 1), number) for number in range(rights)]
    return [(side, number) for (_, side), number in sorted(places)]


def _mjoin_s(pair: StreamPair) -> float:
    op = make_join(chosen("output"), pair)
    started = time.perf_counter()
    outputs = 0
    for side, number in _in_turns(pair):
        rest = pair.batches[side][number]
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
    for side, number in _in_turns(pair):
        columns = [column.to_pylist() for column in pair.batches[side][number].rows.columns]
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
