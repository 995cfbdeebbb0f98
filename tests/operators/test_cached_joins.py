"""CMESHJOIN, CHYBRIDJOIN and CINLJ: exact while the cache is really used, at every step, under every policy."""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.semantics import How
from semistream.operators import Chybridjoin, Cinlj, Cmeshjoin
from semistream.operators.cache.cached_config import CachePolicyName
from semistream.operators.driver import StepOperator
from semistream.operators.registry import algorithm
from semistream.storage import MasterTable
from semistream.testing import oracle
from semistream.testing.conformance import share_key_codes
from semistream.workloads import stream
from tests.depth import covering, examples
from tests.operators.inside import inside

CACHED = ["cmeshjoin", "chybridjoin", "cinlj"]
POLICIES = get_args(CachePolicyName)
SMALLEST = np.iinfo(np.int64).min


def make(name: str, table: MasterTable, schema: pa.Schema, memory: int = 400_000, **options: Any) -> StepOperator:
    op = ss.operator(name, table, schema, on="id", memory=memory, **options)
    assert isinstance(op.join, Cmeshjoin | Chybridjoin | Cinlj)
    return op


def step(op: StepOperator) -> list[pa.RecordBatch]:
    """Run one step, then check the budget and that the counters add up."""
    results = list(op.step())
    assert op.memory().total_bytes <= op.budget_bytes
    op.check()
    metrics = op.metrics
    assert metrics.tuples_in == metrics.tuples_answered + op.pending
    assert metrics.tuples_through_cache + metrics.tuples_through_disk <= metrics.tuples_answered
    return results


def drain(op: StepOperator) -> list[pa.RecordBatch]:
    results: list[pa.RecordBatch] = []
    while op.pending:
        results += step(op)
    assert step(op) == []
    return results


def restore(op: StepOperator, before: StepOperator) -> None:
    """Let ``op`` go on where ``before`` stands."""
    op.restore(before.snapshot())
    op.check()
    assert op.pending == before.pending
    op.metrics.tuples_in = op.pending  # counters begin anew


# --- a skewed join: hot keys with one row, with many, with none; NULL keys on both sides ----------------------------


@cache
def skewed() -> tuple[pa.Table, pa.RecordBatch]:
    rng = np.random.default_rng(5)
    keys = [key for key in range(10, 250) for _ in range(6 if key % 10 == 0 else 1)]
    rng.shuffle(keys)
    master_keys = pa.array([*keys, None, SMALLEST, None])
    rows = len(master_keys)
    master = pa.table({"id": master_keys, "row": range(rows), "label": ["l" * int(n % 30) for n in range(rows)]})
    hot = [20, 25, 31, 5000, 130, SMALLEST]
    tuples = 900
    drawn = [
        None if share < 0.03 else -7 if share < 0.06 else hot[int(rng.integers(6))] if share < 0.8 else int(key)
        for share, key in zip(rng.random(tuples), rng.integers(10, 300, tuples), strict=True)
    ]
    return master, pa.record_batch({"id": pa.array(drawn, pa.int64()), "number": range(tuples)})


@cache
def expected_by_tuple(how: How) -> "dict[int, Counter[oracle.Row]]":
    master, stream = skewed()
    columns = ["row", "label"] if how in ("inner", "left") else []
    by_tuple: dict[int, Counter[oracle.Row]] = defaultdict(Counter)
    for row in oracle.join([stream], master, [("id", "id")], how, None, columns):
        by_tuple[row[1]][row] += 1
    return by_tuple


def expected(how: How, tuples: range) -> "Counter[oracle.Row]":
    by_tuple = expected_by_tuple(how)
    return Counter(row for number in tuples for row in by_tuple[number].elements())


@pytest.fixture(scope="module")
def tables() -> Iterator[dict[str, MasterTable]]:
    """The table in both layouts, the last third of it appended."""
    master, _ = skewed()
    with tempfile.TemporaryDirectory() as directory:
        staged = {}
        for layout in ("heap", "clustered"):
            path = Path(directory) / layout
            first = master.num_rows * 2 // 3
            table = ss.stage(master.slice(0, first), path, key="id", layout=layout, page_bytes=512)
            staged[layout] = table.append(master.slice(first))
        yield staged


def in_bursts(op: StepOperator, stream: pa.RecordBatch, tuples: int = 30) -> Iterator[list[pa.RecordBatch]]:
    """Offer a few tuples before each step, and yield the results of every step."""
    for start in range(0, stream.num_rows, tuples):
        burst = stream.slice(start, tuples)
        assert op.offer(burst) == burst.num_rows
        yield step(op)
        yield step(op)


@pytest.mark.parametrize(
    ("name", "policy", "how"), covering(CACHED, POLICIES, ["inner", "left", "semi", "anti"], times=4)
)
def test_the_cache_answers_and_the_join_is_exact(
    tables: dict[str, MasterTable], name: str, policy: CachePolicyName, how: How
) -> None:
    _, stream = skewed()
    table = tables[algorithm(name).layouts[0]]
    order = "stream" if how in ("left", "semi") else "any"
    op = make(name, table, stream.schema, how=how, cache_policy=policy, order=order)
    results = [batch for batches in in_bursts(op, stream) for batch in batches]
    results += drain(op)  # the stream pauses, and all that waits is answered
    again = [batch for batches in in_bursts(op, stream.slice(0, 60)) for batch in batches] + drain(op)
    rows = oracle.rows_of(results)
    assert Counter(rows) == expected(how, range(stream.num_rows))
    assert Counter(oracle.rows_of(again)) == expected(how, range(60))
    if order == "stream":
        assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    metrics = op.metrics
    assert metrics.tuples_through_cache > 0
    asked = pa.concat_arrays([stream.column("id"), stream.column("id").slice(0, 60)]).to_pylist()
    # CHYBRIDJOIN knows that a key below all others has no row; here the smallest integer has one.
    assert metrics.tuples_through_cache + metrics.tuples_through_disk + asked.count(None) == metrics.tuples_answered
    assert metrics.tuples_in == metrics.tuples_answered == len(asked)
    op.close()


@pytest.mark.parametrize("name", CACHED)
def test_keys_with_many_rows_and_keys_with_none_are_cached(tables: dict[str, MasterTable], name: str) -> None:
    _, stream = skewed()
    op = make(name, tables[algorithm(name).layouts[0]], stream.schema)
    for _ in in_bursts(op, stream):
        pass
    rows_cache = inside(op).front_stage.cache
    assert rows_cache is not None
    entries = rows_cache.find(np.array([20, 25, 5000, 130, SMALLEST]))
    assert (entries >= 0).all()
    assert rows_cache.row_count(entries).tolist() == [6, 1, 0, 6, 1]
    op.close()


@pytest.mark.parametrize("order", ["any", "stream"])
@pytest.mark.parametrize("name", CACHED)
def test_a_snapshot_at_any_step_goes_on_exactly(tables: dict[str, MasterTable], name: str, order: str) -> None:
    _, stream = skewed()
    table = tables[algorithm(name).layouts[0]]
    options: dict[str, Any] = {"how": "left", "order": order, "cache_policy": "threshold"}
    if name == "cmeshjoin":
        options["b"] = 16  # several steps per scan, so that a snapshot finds half-collected keys
    op = make(name, table, stream.schema, **options)
    seen: Counter[oracle.Row] = Counter()
    offered = cached_at_snapshot = collecting_at_snapshot = 0
    for position, results in enumerate(in_bursts(op, stream.slice(0, 450), tuples=15)):
        seen.update(oracle.rows_of(results))
        offered = 15 * (position // 2 + 1)
        restored = make(name, table, stream.schema, **options)
        restore(restored, op)
        assert inside(restored).front_stage.num_keys == 0
        rest = Counter(oracle.rows_of(drain(restored)))
        assert seen + rest == expected("left", range(offered)), position
        restored.close()
        cached_at_snapshot += inside(op).front_stage.num_keys > 0
        collecting_at_snapshot += isinstance(op.join, Cmeshjoin) and not inside(op).collector.is_idle
    assert cached_at_snapshot
    assert collecting_at_snapshot or name != "cmeshjoin"
    op.close()


# --- trap 7: places of CHYBRIDJOIN's queue --------------------------------------------------------------------------


def _free_places(op: StepOperator) -> int:
    assert isinstance(op.join, Chybridjoin | Cmeshjoin)
    return op.join.stream.free_tuples


@pytest.mark.parametrize("name", ["cmeshjoin", "chybridjoin"])
def test_tuples_without_match_and_partial_reads_leak_no_place(tmp_path: Path, name: str) -> None:
    table = ss.stage(pa.table({"id": range(0, 4000, 2)}), tmp_path / "r", key="id", page_bytes=512)
    rng = np.random.default_rng(2)
    op = make(name, table, pa.schema([("id", pa.int64())]), memory=200_000)
    offered = 0
    for _ in range(150):  # all keys are odd: nothing matches, and most reads are partial
        batch = pa.record_batch({"id": rng.integers(0, 2000, int(rng.integers(1, 90))) * 2 + 1})
        offered += op.offer(batch)
        assert step(op) == []
    assert drain(op) == []
    capacity = inside(op).stream.capacity_tuples if isinstance(op.join, Chybridjoin | Cmeshjoin) else 0
    assert offered > 3 * capacity > 0
    assert _free_places(op) == capacity
    assert op.metrics.tuples_without_match == offered
    op.close()


@pytest.mark.parametrize("name", CACHED)
def test_a_step_of_hits_alone_reads_no_page(tables: dict[str, MasterTable], name: str) -> None:
    _, stream = skewed()
    op = make(name, tables[algorithm(name).layouts[0]], stream.schema)
    for _ in in_bursts(op, stream):
        pass
    drain(op)
    pages, through_disk = op.metrics.pages_read, op.metrics.tuples_through_disk
    hits = pa.record_batch({"id": [20, 5000, 130, None, 20], "number": range(5)})
    assert op.offer(hits) == 5
    results = step(op)
    assert op.pending == 0
    assert sum(batch.num_rows for batch in results) == 18
    assert (op.metrics.pages_read, op.metrics.tuples_through_disk) == (pages, through_disk)
    op.close()


# --- learning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["chybridjoin", "ssbj"])
def test_a_cache_that_did_not_pay_comes_back_when_the_stream_gets_skewed(tmp_path: Path, name: str) -> None:
    rows = 20_000
    table = ss.stage(pa.table({"id": range(rows), "v": range(rows)}), tmp_path / "r", key="id", page_bytes=1024)
    op = ss.operator(name, table, pa.schema([("id", pa.int64())]), on="id", memory=300_000)
    shares = []
    for skew, tuples in ((0.0, 40_000), (1.2, 20_000), (1.2, 10_000)):  # the second is the time that it may take
        before = op.metrics.tuples_through_cache
        for keys in stream(tuples, key_domain=rows, zipf_exponent=skew, seed=7, batch_rows=1000):
            batch = pa.record_batch({"id": keys["key"]})
            while batch.num_rows:
                batch = batch.slice(op.offer(batch))
                list(op.step())
        shares.append((op.metrics.tuples_through_cache - before) / tuples)
    op.close()
    assert shares[0] < 0.1
    assert shares[2] > 0.6


@pytest.mark.parametrize(("payload", "policy"), [("text", "aging"), ("text", "tinylfu"), ("fixed", "aging")])
def test_a_full_cache_learns_the_keys_that_became_frequent(
    tmp_path: Path, payload: str, policy: CachePolicyName
) -> None:
    """A cache whose space for text is full of gaps has to go on learning, a few keys at a time."""
    rows = 8000
    values = pa.array([f"{n:016d}" for n in range(rows)])
    values = values if payload == "text" else values.cast(pa.binary()).cast(pa.binary(16))
    table = ss.stage(pa.table({"id": range(rows), "v": values}), tmp_path / "r", key="id", page_bytes=1024)
    rng = np.random.default_rng(1)
    op = make("cinlj", table, pa.schema([("id", pa.int64())]), memory=400_000, cache_policy=policy, cache_share=0.08)
    shares = []
    for hot in (0, 4000):
        before = op.metrics.tuples_through_cache, op.metrics.tuples_answered
        for _ in range(250):
            keys = np.where(rng.random(60) < 0.7, hot + rng.integers(0, 300, 60) * 13, rng.integers(0, rows, 60))
            assert op.offer(pa.record_batch({"id": keys})) == 60
            list(op.step())
        now = op.metrics.tuples_through_cache, op.metrics.tuples_answered
        shares.append((now[0] - before[0]) / (now[1] - before[1]))
    assert shares[0] > 0.25
    assert shares[1] > 0.6 * shares[0]
    op.check()
    op.close()


# --- random joins ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colliding", [False, True], ids=["", "colliding codes"])
@pytest.mark.parametrize("name", CACHED)
@examples(0.08)
@given(data=st.data())
def test_random_skewed_joins_with_pauses_and_restarts(name: str, colliding: bool, data: st.DataObject) -> None:
    draw = data.draw
    text = colliding or draw(st.booleans(), "text keys")
    random = Random(draw(st.integers(0, 1 << 32), "seed"))

    def keys(count: int, skew: int) -> pa.Array:
        numbers = [None if random.random() < 0.05 else int(40 * random.random() ** skew) for _ in range(count)]
        if text:
            return pa.array([None if n is None else "k" * (n % 7) + str(n) for n in numbers], pa.string())
        return pa.array([SMALLEST if n == 1 else n for n in numbers], pa.int64())

    def small_numbers(count: int) -> pa.Array:
        return pa.array([random.choice([None, random.randint(0, 9)]) for _ in range(count)], pa.int64())

    master = pa.table(
        {
            "id": keys(60, 1),
            "row": range(60),
            "label": ["x" * random.randint(0, 40) for _ in range(60)],
            "low": small_numbers(60),
        }
    )
    stream = pa.record_batch({"id": keys(160, 4), "number": range(160), "value": small_numbers(160)})
    how: How = draw(st.sampled_from(["inner", "left", "semi", "anti"]), "how")
    options: dict[str, Any] = {
        "how": how,
        "order": draw(st.sampled_from(["any", "stream"]), "order"),
        "cache_policy": draw(st.sampled_from(POLICIES), "policy"),
        "cache_share": draw(st.sampled_from([0.0, 0.01, 0.15, 0.5]), "share"),
        "condition": draw(st.sampled_from([None, ss.compare("value", "<=", "low")]), "condition"),
    }
    results: list[pa.RecordBatch] = []
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        if colliding:
            share_key_codes(patch)
        layout = draw(st.sampled_from(algorithm(name).layouts), "layout")
        buckets = draw(st.sampled_from([1, 3]), "buckets")
        path = Path(directory) / "r"
        table = ss.stage(master.slice(0, 40), path, key="id", layout=layout, buckets=buckets, page_bytes=256)
        table = table.append(master.slice(40))
        op = make(name, table, stream.schema, **options)
        start = 0
        while start < stream.num_rows:
            taken = op.offer(stream.slice(start, draw(st.sampled_from([5, 20, 60]), "burst")))
            start += taken
            for _ in range(draw(st.sampled_from([0, 1, 2, 20]), "steps") if taken else 1):
                results += step(op) if op.pending else []
            if draw(st.integers(0, 5), "restart") == 0:
                before, op = op, make(name, table, stream.schema, **options)
                restore(op, before)
                before.close()
        results += drain(op)
        op.close()
    columns = ["row", "label", "low"] if how in ("inner", "left") else []
    want = oracle.join([stream], master, [("id", "id")], how, options["condition"], columns)
    rows = oracle.rows_of(results)
    assert oracle.multiset(rows) == oracle.multiset(want)
    if options["order"] == "stream":
        assert [row[1] for row in rows] == [row[1] for row in want]
