"""The front stage alone: what it answers from its cache equals the naive join, and it keeps to its bytes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.conditions import Condition
from semistream.core.metrics import Metrics
from semistream.core.semantics import How, JoinSpec
from semistream.operators.cache.cached_config import CachedConfig, CachePolicyName
from semistream.operators.cache.front_stage import FrontStage
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import EqualityMatching, PairFilter, keys_are_valid
from semistream.operators.window.stream_buffer import Arrivals
from semistream.testing import oracle
from semistream.testing.conformance import share_key_codes
from tests.depth import examples

SMALLEST = np.iinfo(np.int64).min
SETTINGS = examples(0.5)
POLICIES: tuple[CachePolicyName, ...] = get_args(CachePolicyName)


@dataclass
class Stage:
    """A front stage with the join that it stands before."""

    spec: JoinSpec
    front: FrontStage
    matching: EqualityMatching
    metrics: Metrics

    @classmethod
    def of(
        cls,
        stream: pa.Schema,
        master: pa.Schema,
        on: Sequence[str],
        how: How,
        condition: Condition | None = None,
        cache_bytes: int = 20_000,
        policy: CachePolicyName = "aging",
        columns: Sequence[str] | None = None,
    ) -> "Stage":
        spec = JoinSpec.resolve(stream, master, list(on), how, condition, columns)
        metrics = Metrics()
        front = FrontStage(
            spec,
            PairFilter(spec),
            Delivery(spec, 100_000, ordered=False),
            metrics,
            cache_bytes=cache_bytes,
            tuple_bytes=lambda: 60.0,
            turn_tuples=lambda: 50,
            config=CachedConfig(cache_policy=policy),
        )
        return cls(spec, front, EqualityMatching(spec), metrics)

    def cache(self, codes: "np.ndarray[Any, np.dtype[np.int64]]", master: pa.Table, pages: int) -> None:
        """Cache these keys, whose rows come by page by page."""
        collecting = self.front.collect(np.unique(codes), np.full(np.unique(codes).size, 99, dtype=np.int32))
        for run in master.combine_chunks().to_batches(max_chunksize=max(1, master.num_rows // pages)):
            run_codes = self.matching.master_codes(run).code
            valid = keys_are_valid(run, self.spec.master_keys, pa.array(np.arange(run.num_rows)))
            for position, code in enumerate(collecting.sets.codes):
                rows = np.flatnonzero((run_codes == code) & valid)
                collecting.sets.add(np.full(rows.size, position), run, rows)
        self.front.take_in(collecting)
        self.front.check()

    def answer(self, stream: pa.RecordBatch) -> tuple[list[pa.RecordBatch], pa.RecordBatch]:
        """Return the results of tuples whose keys are cached, and the other tuples."""
        codes = self.matching.stream_codes(stream)
        arrivals = Arrivals(stream, codes.code, codes.valid, np.arange(stream.num_rows))
        entries = self.front.find(codes.code)
        if codes.valid is not None:
            entries[~codes.valid] = -1
        self.front.record(codes.code, entries)
        hits = entries >= 0
        results = list(self.front.answer(arrivals.where(hits), entries[hits])) if hits.any() else []
        return results, stream.filter(pa.array(~hits))


_KEYS = {
    "integer": [pa.int64()],
    "text": [pa.string()],
    "composite": [pa.int64(), pa.string()],
    "float": [pa.float64()],
}


def _key_value(kind: pa.DataType, number: int | None) -> Any:
    if number is None:
        return None
    if pa.types.is_string(kind):
        return "k" * (number % 5) + str(number)
    if pa.types.is_floating(kind):
        return float("nan") if number == 1 else number / 2
    return SMALLEST if number == 0 else number


@st.composite
def joins(draw: st.DrawFn) -> tuple[pa.Table, pa.RecordBatch, list[str], How, Condition | None, int]:
    kinds = _KEYS[draw(st.sampled_from(sorted(_KEYS)))]
    names = [f"key{position}" for position in range(len(kinds))]
    random = draw(st.randoms(use_true_random=False))

    def keys(rows: int) -> list[pa.Array]:
        numbers = [None if random.random() < 0.1 else random.randint(0, 6) for _ in range(rows)]
        return [pa.array([_key_value(kind, number) for number in numbers], kind) for kind in kinds]

    rows = draw(st.sampled_from([1, 30, 80]))
    master = pa.table(
        [
            *keys(rows),
            pa.array(range(rows)),
            pa.array([random.choice([None, "label" * random.randint(0, 3)]) for _ in range(rows)]),
            pa.array([random.choice([None, random.randint(0, 9)]) for _ in range(rows)], pa.int64()),
        ],
        names=[*names, "row", "label", "low"],
    )
    tuples = draw(st.sampled_from([1, 40]))
    values = pa.array([random.choice([None, random.randint(0, 9)]) for _ in range(tuples)], pa.int64())
    notes = pa.array(["n" * random.randint(0, 9) for _ in range(tuples)])
    stream = pa.RecordBatch.from_arrays(
        [*keys(tuples), pa.array(range(tuples)), values, notes], names=[*names, "number", "value", "note"]
    )
    condition = ss.compare("value", "<=", "low") if draw(st.booleans()) else None
    how: How = draw(st.sampled_from(["inner", "left", "semi", "anti"]))
    return master, stream, names, how, condition, draw(st.integers(1, 6))


def check_answers(
    master: pa.Table, stream: pa.RecordBatch, on: list[str], how: How, condition: Condition | None, pages: int
) -> None:
    stage = Stage.of(stream.schema, master.schema, on, how, condition)
    stage.front.measure(master.to_batches()[0])
    codes = stage.matching.stream_codes(stream)
    valid = codes.code if codes.valid is None else codes.code[codes.valid]
    stage.cache(valid[: valid.size // 2 + 1], master, pages)
    results, others = stage.answer(stream)
    cached = stream.filter(pa.array(~np.isin(np.arange(stream.num_rows), others.column("number").to_numpy())))
    keys = [(name, name) for name in on]
    columns = [name for name in master.column_names if name not in on] if how in ("inner", "left") else []
    expected = oracle.join([cached], master, keys, how, condition, columns)
    assert oracle.multiset(oracle.rows_of(results)) == oracle.multiset(expected)
    assert stage.metrics.tuples_through_cache == stage.metrics.tuples_answered == cached.num_rows
    assert stage.metrics.tuples_without_match == len(oracle.join([cached], master, keys, "anti", condition))
    # Every key that was asked for is there, but for NULL keys, and no key besides.
    asked = np.unique(valid[: valid.size // 2 + 1])
    assert stage.front.num_keys == asked.size
    assert cached.num_rows == np.isin(valid, asked).sum()


@SETTINGS
@given(join=joins())
def test_hits_are_answered_as_by_the_naive_join(
    join: tuple[pa.Table, pa.RecordBatch, list[str], How, Condition | None, int],
) -> None:
    check_answers(*join)


@SETTINGS
@given(join=joins())
def test_keys_that_share_a_code_are_told_apart(
    join: tuple[pa.Table, pa.RecordBatch, list[str], How, Condition | None, int],
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        share_key_codes(patch)
        check_answers(*join)


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_keys_without_rows_are_answered_from_the_cache(how: How) -> None:
    master = pa.table({"id": [1, 2, None], "v": ["a", "b", "c"]})
    stream = pa.record_batch({"id": [5, SMALLEST, None, 1, 5]})
    stage = Stage.of(stream.schema, master.schema, ["id"], how)
    stage.front.measure(master.to_batches()[0])
    stage.cache(np.array([5, SMALLEST]), master, pages=1)
    results, others = stage.answer(stream)
    assert others.column("id").to_pylist() == [None, 1]  # a NULL key is not the smallest integer
    unmatched = {"inner": [], "semi": [], "left": [(5, None), (SMALLEST, None), (5, None)]}
    assert oracle.rows_of(results) == unmatched.get(how, [(5,), (SMALLEST,), (5,)])
    assert stage.metrics.tuples_without_match == stage.metrics.tuples_through_cache == 3


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("columns", [["v"], [], ["id", "text"]], ids=str)
def test_memory_stays_within_its_share_and_uses_it(policy: CachePolicyName, columns: list[str]) -> None:
    master = pa.record_batch({"id": [1, 2], "v": [3, 4], "text": ["short", "a much longer text"]})
    stream = pa.schema([("id" if "id" not in columns else "key", pa.int64())])
    for cache_bytes in [0, 1, 50, 500, 1024, 1100, 1300, 1500, *range(2000, 6000, 111), 50_000, 1_000_000]:
        spec = JoinSpec.resolve(stream, master.schema, {stream.names[0]: "id"}, "inner", None, columns)
        front = FrontStage(
            spec,
            PairFilter(spec),
            Delivery(spec, 100_000, ordered=False),
            Metrics(),
            cache_bytes=cache_bytes,
            tuple_bytes=lambda: 60.0,
            turn_tuples=lambda: 50,
            config=CachedConfig(cache_policy=policy),
        )
        assert sum(front.components().values()) == 0
        front.measure(master)
        front.check()
        used = sum(front.components().values())
        assert used <= cache_bytes
        if cache_bytes >= 50_000:
            assert used > 0.95 * cache_bytes
        if not front.capacity_keys:
            assert used == 0
            assert front.consider(np.array([1]), np.array([5], dtype=np.int32)) is None
            assert front.find(np.array([1])).tolist() == [-1]


def test_a_row_set_larger_than_the_cache_is_not_cached_in_part() -> None:
    master = pa.table({"id": [1] * 500 + [2], "v": range(501)})
    stage = Stage.of(pa.schema([("id", pa.int64())]), master.schema, ["id"], "inner", cache_bytes=4000)
    stage.front.measure(master.to_batches()[0])
    assert 2 < stage.front.capacity_keys < 500
    stage.cache(np.array([1]), master, pages=7)
    assert stage.front.num_keys == 0
    stage.cache(np.array([1, 2]), master, pages=7)
    assert stage.front.find(np.array([1, 2])).tolist()[0] == -1
    assert stage.answer(pa.record_batch({"id": [1, 1]}))[1].num_rows == 2
    assert stage.metrics.tuples_through_cache == 0


def test_rows_of_a_key_that_has_too_many_for_its_tuples_are_not_copied() -> None:
    master = pa.table({"id": [1, *[2] * 50], "row": range(51)})
    stage = Stage.of(pa.schema([("id", pa.int64())]), master.schema, ["id"], "inner", policy="inequality")
    stage.front.measure(master.to_batches()[0])
    collecting = stage.front.collect(np.array([1, 2]), np.array([5, 5], dtype=np.int32))
    stage.front.give_up(collecting, np.array([1, 50]))
    assert collecting.sets.given_up.tolist() == [False, True]
    stage.front.take_in(collecting)
    assert stage.front.find(np.array([1, 2])).tolist() == [0, -1]


def test_many_rows_for_many_tuples_leave_in_portions() -> None:
    master = pa.table({"id": [7] * 300, "v": ["value" * 20] * 300})
    stream = pa.record_batch({"id": [7] * 40, "number": range(40)})
    stage = Stage.of(stream.schema, master.schema, ["id"], "inner", cache_bytes=200_000)
    stage.front.measure(master.to_batches()[0])
    stage.cache(np.array([7]), master, pages=3)
    results, _ = stage.answer(stream)
    assert sum(batch.num_rows for batch in results) == 300 * 40
    assert max(batch.nbytes for batch in results) <= 20_000
    assert oracle.multiset(oracle.rows_of(results)) == oracle.multiset(
        oracle.join([stream], master, [("id", "id")], "inner", None, ["v"])
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_a_key_that_is_cached_is_not_collected_again(policy: CachePolicyName) -> None:
    master = pa.table({"id": range(20), "v": range(20)})
    stage = Stage.of(pa.schema([("id", pa.int64())]), master.schema, ["id"], "inner", policy=policy)
    stage.front.measure(master.to_batches()[0])
    codes, waiting = np.arange(20), np.full(20, 9, dtype=np.int32)
    stage.front.record(np.repeat(codes, 9), np.full(180, -1, dtype=np.int32))
    collecting = stage.front.consider(codes[:5], waiting[:5])
    assert collecting is not None
    assert sorted(collecting.sets.codes.tolist()) == list(range(5))
    stage.front.take_in(collecting)
    assert stage.front.consider(codes[:5], waiting[:5]) is None
    again = stage.front.consider(codes[:8], waiting[:8])
    assert again is not None
    assert sorted(again.sets.codes.tolist()) == [5, 6, 7]
