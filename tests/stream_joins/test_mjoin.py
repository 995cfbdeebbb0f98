"""What MJoin makes of what it knows: state that stays small, punctuations that go on, bad input that is told."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import (
    BudgetTooSmall,
    ContradictedPunctuation,
    InvalidArgument,
    KeyTypeMismatch,
    OperatorMisuse,
    SchemaMismatch,
    SnapshotMismatch,
    StateTooLarge,
    UnknownColumn,
    UnsupportedType,
)
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, Side
from semistream.stream_joins.shj import Shj
from semistream.stream_joins.xjoin import Xjoin
from semistream.workloads import ACCESS_SCHEMA, AUCTION_SCHEMA, BID_SCHEMA, NEWS_SCHEMA, Auctions, News
from tests.stream_joins.streams import LEFT_SCHEMA, RIGHT_SCHEMA, Streams, batch

_BUDGET = 2 << 20


def _offer(op: StreamJoin, side: Side, given: PunctuatedBatch) -> list[PunctuatedBatch]:
    results: list[PunctuatedBatch] = []
    while True:
        taken = op.offer(side, given)
        if taken == len(given):
            return results
        given = given.split(taken)[1]
        results.extend(op.step())


def _run(op: StreamJoin, parts: list[tuple[Side, PunctuatedBatch]]) -> tuple[list[PunctuatedBatch], list[int]]:
    """Return what left, and how many tuples were in the state after each step."""
    results: list[PunctuatedBatch] = []
    held = []
    for side, part in parts:
        results += _offer(op, side, part)
        while op.queued(LEFT) or op.queued(RIGHT):
            results += op.step()
        held.append(sum(len(window) for window in op.state.windows))
        assert op.memory().total_bytes <= op.budget_bytes
    results += op.finish()
    return results, held


def _news_parts(news: News, step: int) -> list[tuple[Side, PunctuatedBatch]]:
    per_news = news.num_accesses // news.count
    parts: list[tuple[Side, PunctuatedBatch]] = []
    for start in range(0, news.count, step):
        rows = news.news_part(start, step)
        parts.append((LEFT, PunctuatedBatch.without_marks(rows, pa.int64())))
        parts.append((RIGHT, news.accesses_part(start * per_news, step * per_news)))
    return parts


def _rows(results: list[PunctuatedBatch]) -> "Counter[tuple[Any, ...]]":
    return Counter(tuple(row.values()) for result in results for row in result.rows.to_pylist())


def _joined(news: News) -> "Counter[tuple[Any, ...]]":
    by_number = {row["sno"]: row for row in news.news_part(0, news.count).to_pylist()}
    accesses = news.accesses_part(0, news.num_accesses).rows.to_pylist()
    return Counter(
        (row["sno"], by_number[row["sno"]]["topic"], by_number[row["sno"]]["length"], row["access"], row["reader"])
        for row in accesses
    )


@pytest.mark.parametrize("arrival", ["ordered", "random"])
@pytest.mark.parametrize("goal", ["output", "memory", "propagation"])
@pytest.mark.parametrize("stream_order", ["random", "priority", "chosen"])
def test_news_with_their_readers(arrival: Any, goal: Any, stream_order: Any) -> None:
    news = News(count=400, accesses=6, arrival=arrival, seed=1)
    op = Mjoin(
        NEWS_SCHEMA,
        ACCESS_SCHEMA,
        "sno",
        _BUDGET,
        relation="one-to-many",
        goal=goal,
        stream_order=stream_order,
        quota=50,
        purge_every=1 if goal == "memory" else "chosen",
    )
    results, held = _run(op, _news_parts(news, 20))
    assert _rows(results) == _joined(news)
    assert op.metrics.purged + op.metrics.dropped == 400 + 2400
    if arrival == "ordered" and goal == "memory" and stream_order == "priority":
        assert max(held) <= 10 + 20, "the live news, and those that have just come"
    passed = [mark for result in results for mark in result.marks.low.to_pylist()]
    assert {mark for mark in passed if mark is not None} == set(range(400))


def test_shj_and_xjoin_keep_everything_that_mjoin_forgets() -> None:
    news = News(count=300, accesses=6, seed=1)
    parts = _news_parts(news, 20)
    held = {}
    joins: list[StreamJoin] = [
        Shj(NEWS_SCHEMA, ACCESS_SCHEMA, "sno", _BUDGET),
        Xjoin(NEWS_SCHEMA, ACCESS_SCHEMA, "sno", _BUDGET),
        Mjoin(NEWS_SCHEMA, ACCESS_SCHEMA, "sno", _BUDGET, relation="one-to-many", purge_every=100),
    ]
    for op in joins:
        results, counts = _run(op, parts)
        assert _rows(results) == _joined(news)
        held[op.name] = counts[-1]
        op.close()
    assert held["shj"] == held["xjoin"] == 300 + 1800
    assert held["mjoin"] < 120


@pytest.mark.parametrize("purge_every", [1, 7])
def test_a_run_ends_where_a_purge_is_due(purge_every: int) -> None:
    news = News(count=200, accesses=6, seed=1)
    op = Mjoin(NEWS_SCHEMA, ACCESS_SCHEMA, "sno", _BUDGET, relation="one-to-many", quota=5000, purge_every=purge_every)
    op.offer(LEFT, PunctuatedBatch.without_marks(news.news_part(0, 200), pa.int64()))
    op.offer(RIGHT, news.accesses_part(0, news.num_accesses))
    list(op.step())
    while op.queued(RIGHT):
        list(op.step())
        punctuated = op.metrics.punctuations_in
        purged = punctuated - punctuated % purge_every if punctuated < 200 else 200
        assert sum(len(window) for window in op.state.windows) == 200 - purged
    # The last ten news leave at one place: they are purged together.
    assert op.metrics.purges == -(-191 // purge_every)


def test_what_goes_first_does_not_bring_a_punctuation_before_the_tuples_that_precede_it() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET, tuple_order="value", purge_every=1)
    streams = Streams(
        [
            (RIGHT, batch(RIGHT, [2, 1], 0, [(2, 1, 1)])),  # the output is over for key 1 when the left one has come
            (LEFT, batch(LEFT, [2, 1], 0, [(2, 2, 2)])),  # so it goes first, and then the state is purged
        ]
    )
    assert _rows(_run(op, streams.offers)[0]) == streams.joined("inner")


def test_punctuations_are_kept_back_on_request() -> None:
    news = News(count=100, accesses=6, seed=1)
    op = Mjoin(NEWS_SCHEMA, ACCESS_SCHEMA, "sno", _BUDGET, relation="one-to-many", pass_on=False)
    results, _ = _run(op, _news_parts(news, 20))
    assert _rows(results) == _joined(news)
    assert op.metrics.punctuations_out == sum(len(result.marks) for result in results) == 0


def test_punctuations_that_never_merge_are_told_when_they_fill_their_memory() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10)
    keys = np.arange(0, 2000, 2)
    with pytest.raises(
        StateTooLarge, match=r"1000 ranges of keys that do not touch, .*: give more memory, or punctuate"
    ):
        list(op.punctuate(LEFT, keys, keys))


def test_keys_that_never_merge_are_forgotten_once_neither_stream_sends_them() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10)
    rows = 0
    for start in range(0, 40_000, 100):
        keys = list(range(start, start + 100, 2))
        marks: list[tuple[int, int | None, int | None]] = [(len(keys), key, key) for key in keys]
        for side in (LEFT, RIGHT):
            _offer(op, side, batch(side, keys, start, marks))
            rows += sum(out.rows.num_rows for out in op.settle())
            assert op.memory().total_bytes <= op.budget_bytes
    assert rows == 20_000
    assert sum(len(window) for window in op.state.windows) == 0


def test_keys_that_come_once_are_forgotten_once_the_other_stream_sends_them_no_more() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10, relation="one-to-many")
    for start in range(0, 40_000, 100):
        keys = list(range(start, start + 100, 2))
        marks: list[tuple[int, int | None, int | None]] = [(len(keys), key, key) for key in keys]
        for side, batch_marks in ((LEFT, []), (RIGHT, marks)):
            _offer(op, side, batch(side, keys, start, batch_marks))
            list(op.settle())
    assert op.metrics.rows_out == 20_000
    assert sum(len(window) for window in op.state.windows) == 0


def test_a_key_that_comes_once_is_told_after_it_was_purged_too() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET, relation="one-to-many", purge_every=1)
    _offer(op, LEFT, batch(LEFT, [5], 0, []))
    _offer(op, RIGHT, batch(RIGHT, [5], 0, [(1, 5, 5)]))
    list(op.settle())
    _offer(op, LEFT, batch(LEFT, [5], 1, []))
    with pytest.raises(ContradictedPunctuation, match=r"a tuple with key=5 came after a punctuation"):
        list(op.step())


def test_auctions_with_bids_in_little_memory() -> None:
    auctions = Auctions(count=3000, bids=5, open_auctions=100, seed=2)
    parts: list[tuple[Side, PunctuatedBatch]] = []
    for start in range(0, 3000, 100):
        parts += [(LEFT, auctions.auctions_part(start, 100)), (RIGHT, auctions.bids_part(start * 5, 500))]
    op = Mjoin(AUCTION_SCHEMA, BID_SCHEMA, "auction", 192 << 10, relation="one-to-many")
    results, _ = _run(op, parts)
    rows = _rows(results)
    assert sum(rows.values()) == 15_000
    assert len(rows) == 15_000, "a bid leaves once"
    assert not op.disk.parts.used, "nothing went to disk"


@pytest.mark.parametrize("arrival", ["clustered", "ascending", "descending"])
def test_arrival_takes_the_place_of_punctuations(arrival: Any) -> None:
    keys = np.repeat(np.arange(500), 3)
    if arrival == "descending":
        keys = keys[::-1]
    if arrival == "clustered":
        keys = np.repeat(np.random.default_rng(1).permutation(500), 3)
    op = Mjoin(
        LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET, goal="memory", left_arrival=arrival, right_arrival=arrival, quota=64
    )
    parts: list[tuple[Side, PunctuatedBatch]] = []
    for start in range(0, 1500, 30):
        for side in (LEFT, RIGHT):
            parts.append((side, batch(side, keys[start : start + 30].tolist(), start, [])))
    results, held = _run(op, parts)
    assert sum(result.rows.num_rows for result in results) == 500 * 9
    assert max(held) < 200


def _contradicting(**options: Any) -> Mjoin:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET, **options)
    op.offer(LEFT, batch(LEFT, [1, 2, 1, 3, 2], 0, [(2, 1, 1), (3, 3, 5)]))
    op.offer(RIGHT, batch(RIGHT, [1, 2, 3], 0, []))
    return op


def test_a_contradicting_tuple_is_an_error_by_default() -> None:
    op = _contradicting()
    with pytest.raises(
        ContradictedPunctuation, match=r"key=1 came after a punctuation that excludes it: mend the stream"
    ):
        list(op.finish())


@pytest.mark.parametrize("choice", ["aside", "ignore"])
def test_a_contradicting_tuple_is_left_out_and_counted(choice: Any) -> None:
    op = _contradicting(contradiction=choice)
    rows = _rows(list(op.finish()))
    assert sorted(row[0] for row in rows) == [1, 2, 2]
    assert op.metrics.contradicting == 2
    aside = [row["key"] for _, rows in op.take_aside() for row in rows.to_pylist()]
    assert aside == ([1, 3] if choice == "aside" else [])
    assert op.take_aside() == []


def test_a_second_tuple_of_a_key_that_comes_once_is_told() -> None:
    for second in ([5, 5], [5]):
        op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET, relation="one-to-many")
        op.offer(LEFT, batch(LEFT, [4, 5] if len(second) == 1 else [4], 0, []))
        op.offer(LEFT, batch(LEFT, second, 5, []))
        with pytest.raises(ContradictedPunctuation, match=r"key=5 came after another one, of a stream in which a key"):
            list(op.finish())


def test_a_tuple_out_of_order_is_told() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET, right_arrival="ascending")
    op.offer(RIGHT, batch(RIGHT, [4, 6, 5], 0, []))
    with pytest.raises(ContradictedPunctuation, match=r"key=5 came out of the order in which its stream should arrive"):
        list(op.finish())


def test_shj_tells_when_its_memory_is_full() -> None:
    op = Shj(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10)

    def fill() -> None:
        for start in range(0, 10_000, 100):
            _offer(op, LEFT, batch(LEFT, list(range(start, start + 100)), start, []))
            list(op.step())

    with pytest.raises(StateTooLarge, match=r"shj keeps every tuple, and its \d+ tuples fill the memory of 64"):
        fill()


def test_a_full_memory_goes_to_disk_and_comes_back() -> None:
    for kind in (Xjoin, Mjoin):
        op = kind(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 128 << 10)
        results: list[PunctuatedBatch] = []
        for start in range(0, 6000, 100):
            keys = [number * 7 % 3000 for number in range(start, start + 100)]
            for side in (LEFT, RIGHT):
                results += _offer(op, side, batch(side, keys, start, []))
                results += op.step()
            assert op.memory().total_bytes <= op.budget_bytes
            if start % 1500 == 0:
                for _ in range(200):  # nothing waits: what is on disk meets what is in memory, and is cleaned up
                    results += op.step()
        assert op.disk.parts.used
        results += op.finish()
        rows = _rows(results)
        assert sum(rows.values()) == len(rows) == 3000 * 4
        op.close()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"on": "nothing"}, UnknownColumn, r"the left stream has no column 'nothing'"),
        ({"on": {"key": "c"}}, UnknownColumn, r"the right stream has no column 'c'"),
        ({"on": ["key", "a"]}, InvalidArgument, r"must name one attribute of each stream"),
        ({"on": {"text": "key"}}, KeyTypeMismatch, r"'text' has type string and 'key' has type int64"),
        ({"how": "outer"}, InvalidArgument, r"how='outer' is unknown for two streams: use 'inner' or 'left'"),
        ({"relation": "few"}, InvalidArgument, r"relation='few' is unknown: use one of many-to-many"),
        ({"goal": "speed"}, InvalidArgument, r"goal='speed' is unknown: use one of output, memory, propagation"),
        ({"left_arrival": "sorted"}, InvalidArgument, r"left_arrival='sorted' is unknown"),
        ({"quota": 0}, InvalidArgument, r"quota=0 must be at least 1"),
        ({"purge_every": "often"}, InvalidArgument, r"purge_every='often' is not a whole number"),
        ({"stream_order": "value"}, InvalidArgument, r"stream_order='value' is unknown: use one of chosen, random"),
        ({"contradiction": "shout"}, InvalidArgument, r"contradiction='shout' is unknown: use 'error', 'aside' or"),
        ({"budget_bytes": 1000}, BudgetTooSmall, r"memory=1000 bytes is too small for mjoin: give at least \d+ bytes"),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, **{"on": "key", "budget_bytes": _BUDGET, **arguments})


def test_schemas_that_do_not_fit() -> None:
    text = pa.schema([("key", pa.string())])
    with pytest.raises(UnsupportedType, match=r"'key' has type string, which punctuations cannot range over"):
        Mjoin(text, text, "key", _BUDGET)
    with pytest.raises(SchemaMismatch, match=r"column 'a' is in both streams: rename it in one of them"):
        Mjoin(LEFT_SCHEMA, LEFT_SCHEMA, "key", _BUDGET)
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET)
    with pytest.raises(SchemaMismatch, match=r"a batch of the right stream has columns"):
        op.offer(RIGHT, batch(LEFT, [1], 0, []))


def test_snapshots_of_other_joins_are_refused() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET)
    op.offer(LEFT, batch(LEFT, [1], 0, []))
    snapshot = op.snapshot()
    with pytest.raises(SnapshotMismatch, match=r"a join with how 'inner', this one has 'left'"):
        Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET, how="left").restore(snapshot)
    with pytest.raises(OperatorMisuse, match=r"needs a join that has done nothing yet"):
        op.restore(snapshot)


def test_a_snapshot_goes_on_in_less_memory_on_disk() -> None:
    large = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET)
    for start in range(0, 4000, 500):
        _offer(large, LEFT, batch(LEFT, list(range(start, start + 500)), start, []))
        list(large.step())
    small = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 128 << 10)
    small.restore(large.snapshot())
    assert small.disk.parts.used
    assert small.memory().total_bytes <= small.budget_bytes
    _offer(small, RIGHT, batch(RIGHT, list(range(0, 4000, 8)), 0, []))
    rows = [row for out in small.finish() for row in out.rows.to_pylist()]
    assert sorted(row["key"] for row in rows) == list(range(0, 4000, 8))
    small.close()
    with pytest.raises(StateTooLarge, match=r"shj keeps every tuple"):
        Shj(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10).restore(_full_shj().snapshot())


def _full_shj() -> Shj:
    op = Shj(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET)
    for start in range(0, 4000, 500):
        _offer(op, LEFT, batch(LEFT, list(range(start, start + 500)), start, []))
        list(op.step())
    return op


def _worked(op: Mjoin, side: Side, keys: list[int], first: int) -> int:
    """Work on tuples as a micro-batch does, and return how many rows leave."""
    results = _offer(op, side, batch(side, keys, first, []))
    return sum(out.rows.num_rows for out in [*results, *op.settle()])


@pytest.mark.parametrize("budget", [200 << 10, 16 << 20])
def test_tuples_that_have_met_the_one_they_can_match_leave_the_disk_too(budget: int) -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", budget, relation="one-to-many")
    out = 0
    for round_number in range(4):
        keys = list(range(round_number * 2000, round_number * 2000 + 2000))
        out += _worked(op, RIGHT, keys, round_number * 2000)
        if budget < 1 << 20:
            assert op.disk.parts.used, "the state is larger than the memory"
        out += _worked(op, LEFT, keys, round_number * 2000)
        held = op.disk.parts.rows_of(RIGHT) + len(op.state.windows[RIGHT])
        assert held == 0
    assert out == 8000
    op.close()


@pytest.mark.parametrize("budget", [200 << 10, 16 << 20])
def test_punctuations_alone_let_tuples_leave_the_disk(budget: int) -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", budget, how="left")
    assert _worked(op, LEFT, list(range(4000)), 0) == 0
    keys = np.arange(3900)
    out = sum(each.rows.num_rows for each in op.punctuate(RIGHT, keys, keys))
    out += sum(each.rows.num_rows for each in op.settle())
    assert out == 3900
    assert op.disk.parts.rows_of(LEFT) + len(op.state.windows[LEFT]) == 100
    op.close()


def test_punctuations_that_wait_are_within_the_budget() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10)
    few = batch(LEFT, [], 0, [(0, key, key) for key in range(300)])
    op.offer(LEFT, few)
    assert op.memory().components["queues"] == 300 * 24
    with pytest.raises(OperatorMisuse, match=r"no room for 300 punctuations: step before they are offered"):
        op.offer(LEFT, few)
    assert op.memory().total_bytes <= op.budget_bytes
    list(op.step())
    op.offer(LEFT, few)


def test_the_end_of_both_streams_is_passed_on_once() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET)
    _offer(op, LEFT, batch(LEFT, [1], 0, [(1, 1, 1)]))
    marks = [out.marks for out in op.finish() if len(out.marks)]
    assert op.metrics.punctuations_in == 1
    assert [(mark.low[0].as_py(), mark.high[0].as_py()) for mark in marks] in ([(1, 1), (None, None)], [(None, None)])
