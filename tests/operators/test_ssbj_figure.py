"""Figure 3 of S0: parts that customers ask for, and their suppliers; tuples and rows are equally large."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.metrics import Metrics
from semistream.core.semantics import JoinSpec
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.operators.cache.cached_config import CachedConfig
from semistream.operators.cache.front_stage import FrontStage
from semistream.operators.cache.policies.inequality_policy import InequalityPolicy
from semistream.operators.cache.switching import Phase, Switching
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import PairFilter
from semistream.testing import oracle
from tests.operators.inside import inside
from tests.operators.ssbj_driver import cached_keys, cached_rows, finish, sizes, ssbj, step

SUPPLIERS = pa.table(
    {
        "supplier": [1, 2, 3, 2, 3, 2, 3, 1, 4, 1],
        "part": [10, 20, 30, 10, 20, 30, 10, 20, 10, 40],
        "cost": [10.0, 12.0, 10.0, 12.0, 10.0, 12.0, 10.0, 10.0, 15.0, 10.0],
        "address": [
            *("Chicago", "New York", "Washington", "New York", "Washington"),
            *("New York", "Washington", "Chicago", "Houston", "Chicago"),
        ],
    }
)
REQUESTS = pa.record_batch(
    {
        "part": [10, 10, 10, 30, 30, 30, 40],
        "customer": [1001, 1002, 1003, 1001, 1004, 1002, 1003],
        "phone": ["96356", "48520", "25635", "96356", "52632", "48520", "25635"],
    }
)


def requests_for(part: int, count: int) -> pa.RecordBatch:
    """Return as many requests for one part."""
    rows = [{"part": part, "customer": 2000 + n, "phone": "0"} for n in range(count)]
    return pa.RecordBatch.from_pylist(rows, REQUESTS.schema)


def with_key_20_cached(tuple_bytes: float, row_bytes: float) -> FrontStage:
    """Return the cache as the figure shows it."""
    spec = JoinSpec.resolve(REQUESTS.schema, SUPPLIERS.schema, "part", "inner", None, None)
    front_stage = FrontStage(
        spec,
        PairFilter(spec),
        Delivery(spec, 1 << 20, ordered=False),
        Metrics(),
        cache_bytes=50_000,
        tuple_bytes=lambda: tuple_bytes,
        turn_tuples=None,
        config=CachedConfig(cache_policy="inequality"),
    )
    run = SUPPLIERS.to_batches()[0]
    front_stage.measure(run)
    front_stage._policy = InequalityPolicy(
        front_stage.capacity_keys, tuple_bytes=tuple_bytes, row_bytes=row_bytes, key_bytes=0, turn_tuples=None
    )
    collecting = front_stage.collect(np.array([20]), np.array([99], dtype=np.int32))
    rows = np.flatnonzero(np.array(SUPPLIERS["part"]) == 20)
    collecting.sets.add(np.zeros(rows.size, dtype=np.int32), run, rows)
    front_stage.take_in(collecting)
    assert cached_rows(front_stage, "supplier") == {20: [1, 2, 3]}
    return front_stage


def scan_three_times(front_stage: FrontStage, rows_per_run: int) -> None:
    window = FifoMultimap(16)
    window.insert(np.array(REQUESTS["part"]))
    switching = Switching(front_stage)
    for state in (Phase.INCREMENTING, Phase.SWITCHING, Phase.PHASE_OUT):
        switching.begin_cycle(window)
        assert switching.phase is state
        if state is not Phase.PHASE_OUT:
            assert set(cached_rows(front_stage, "supplier")) == {20}
        for batch in SUPPLIERS.to_batches(max_chunksize=rows_per_run):
            switching.observe_pages(batch, KeyCodes(np.array(batch["part"]), None))


@pytest.mark.parametrize("rows_per_run", [1, 3, 10])
def test_key_30_moves_to_the_cache_and_key_10_stays_on_disk(rows_per_run: int) -> None:
    front_stage = with_key_20_cached(tuple_bytes=100, row_bytes=100)
    scan_three_times(front_stage, rows_per_run)
    # 10: four rows, three tuples; 30: two rows, three tuples; 40: a row and a tuple take the same.
    assert cached_rows(front_stage, "supplier") == {20: [1, 2, 3], 30: [2, 3]}


@pytest.mark.parametrize(
    ("tuple_bytes", "moved"), [(60, set()), (67, {30}), (100, {30}), (133, {30, 40}), (134, {10, 30, 40})]
)
def test_sizes_decide_where_counts_alone_do_not(tuple_bytes: float, moved: set[int]) -> None:
    """Theorem 2: 3 tuples against 2 rows tip over at 2/3 of a row's bytes, 1 against 1 at 1, 3 against 4 at 4/3."""
    front_stage = with_key_20_cached(tuple_bytes=tuple_bytes, row_bytes=100)
    scan_three_times(front_stage, rows_per_run=4)
    assert set(cached_rows(front_stage, "supplier")) - {20} == moved


@pytest.mark.parametrize("page_bytes", [64, 65536])
def test_the_operator_caches_the_same_keys_and_its_join_is_exact(tmp_path: Path, page_bytes: int) -> None:
    table = ss.stage(SUPPLIERS, tmp_path / "r", key="part", layout="heap", page_bytes=page_bytes)
    offered, results = [], []
    with sizes(tuple_bytes=100, row_bytes=100, key_bytes=0):
        op = ssbj(table, REQUESTS.schema, on="part", how="left", b=1)
        for arriving in [
            *(requests_for(20, 4), requests_for(20, 4), requests_for(40, 1)),  # three scans move key 20
            *(REQUESTS, REQUESTS, REQUESTS),  # three more move key 30
        ]:
            offered.append(arriving)
            assert op.offer(arriving) == arriving.num_rows
            for _ in range(table.num_pages):
                results += step(op)
        assert op.metrics.cycles == 6
        assert cached_rows(inside(op).front_stage, "supplier") == {20: [1, 2, 3], 30: [2, 3]}
        both = pa.concat_batches([REQUESTS, requests_for(20, 3)])
        offered.append(both)
        op.offer(both)
        results += finish(op)
    assert cached_keys(op) == {20, 30}
    assert op.metrics.tuples_through_cache == 3 + 3  # key 30 and key 20 of the last ones
    op.close()
    columns = ["supplier", "cost", "address"]
    expected = oracle.join(offered, SUPPLIERS, [("part", "part")], "left", None, columns)
    assert oracle.multiset(oracle.rows_of(results)) == oracle.multiset(expected)
