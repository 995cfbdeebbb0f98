"""Counts that models predict are those of operators that are really run."""

from pathlib import Path
from typing import Literal

import pytest

from semistream.cost.calibration.feeder import Feeder
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import model
from tests.cost.models.real_joins import batches, case_of, make, run_steps, staged

KEYS = 40_000


@pytest.mark.parametrize("b", [1, 3, 8])
@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_meshjoin_does_exactly_what_its_model_says(
    tmp_path: Path, b: int, layout: Literal["heap", "clustered"]
) -> None:
    table = staged(tmp_path / "table", keys=KEYS, layout=layout)
    with make("meshjoin", table, 1_000_000, b=b) as op:
        plan = model("meshjoin").plan(case_of(op, keys=KeyDistribution.zipf(KEYS, 0.0)), 1_000_000, {"b": b})
        feeder = Feeder(batches(op.spec.stream_schema, domain=KEYS))
        k = int(plan.loops_per_cycle)
        run_steps(op, feeder, 2 * k)
        loop = run_steps(op, feeder, k)
    assert loop.tuples == pytest.approx(plan.loop.tuples, rel=1e-3)
    assert loop.results == pytest.approx(plan.loop.results, rel=0.01)
    assert loop.seeks == pytest.approx(plan.loop.seeks)
    assert loop.pages == pytest.approx(plan.loop.pages)
    assert loop.bytes_read == pytest.approx(plan.loop.bytes_read)
    assert loop.master_rows == pytest.approx(plan.loop.master_rows)


@pytest.mark.parametrize("how", ["inner", "left", "semi", "anti"])
def test_results_of_keys_with_several_rows_or_none(tmp_path: Path, how: str) -> None:
    table = staged(tmp_path / "table", keys=10_000, rows_per_key=3)
    with make("meshjoin", table, 1_000_000, how=how) as op:
        # A fifth of the keys of the stream are in the table.
        case = case_of(op, keys=KeyDistribution.zipf(50_000, 0.0), rows_per_key=3.0, missing=0.8)
        plan = model("meshjoin").plan(case, 1_000_000, {})
        feeder = Feeder(batches(op.spec.stream_schema, domain=50_000))
        k = int(plan.loops_per_cycle)
        run_steps(op, feeder, 2 * k)
        loop = run_steps(op, feeder, k)
    assert loop.results / loop.tuples == pytest.approx(plan.loop.results / plan.loop.tuples, rel=0.05)


@pytest.mark.parametrize(
    ("exponent", "rows_per_key", "missing"), [(0.0, 1, 0.0), (0.5, 4, 0.0), (1.0, 1, 0.0), (1.0, 4, 0.5)]
)
def test_cmeshjoin_in_the_long_run(tmp_path: Path, exponent: float, rows_per_key: int, missing: float) -> None:
    table = staged(tmp_path / "table", keys=KEYS // rows_per_key, rows_per_key=rows_per_key)
    memory = 500_000
    domain = round(KEYS // rows_per_key / (1 - missing))
    with make("cmeshjoin", table, memory) as op:
        case = case_of(op, keys=KeyDistribution.zipf(domain, exponent), rows_per_key=rows_per_key, missing=missing)
        plan = model("cmeshjoin").plan(case, memory, {})
        feeder = Feeder(batches(op.spec.stream_schema, domain=domain, exponent=exponent, scattered=True))
        k = int(plan.loops_per_cycle)
        run_steps(op, feeder, 10 * k)
        loop = run_steps(op, feeder, 3 * k)
    assert loop.cache_share == pytest.approx(plan.loop.cache_share, abs=0.03)
    assert loop.tuples == pytest.approx(plan.loop.tuples, rel=0.1)
    assert loop.bytes_read == pytest.approx(plan.loop.bytes_read)


@pytest.mark.parametrize(
    ("layout", "exponent", "rows_per_key", "missing"),
    [
        ("heap", 0.0, 1, 0.0),
        ("heap", 1.0, 1, 0.0),
        ("heap", 1.0, 4, 0.5),
        ("clustered", 0.0, 1, 0.0),
        ("clustered", 1.0, 4, 0.0),  # missing keys are beyond those of the table, and would all ask for its last pages
    ],
)
def test_ssbj_in_the_long_run(
    tmp_path: Path, layout: Literal["heap", "clustered"], exponent: float, rows_per_key: int, missing: float
) -> None:
    table = staged(tmp_path / "table", keys=KEYS // rows_per_key, rows_per_key=rows_per_key, layout=layout)
    memory = 500_000
    domain = round(KEYS // rows_per_key / (1 - missing))
    with make("ssbj", table, memory) as op:
        case = case_of(op, keys=KeyDistribution.zipf(domain, exponent), rows_per_key=rows_per_key, missing=missing)
        plan = model("ssbj").plan(case, memory, {})
        feeder = Feeder(batches(op.spec.stream_schema, domain=domain, exponent=exponent, scattered=True))
        scan = op.steps_per_cycle
        assert scan is not None
        run_steps(op, feeder, 12 * scan)
        loop = run_steps(op, feeder, 4 * scan)
    # Its cache goes on learning for dozens of scans.
    assert loop.cache_share == pytest.approx(plan.loop.cache_share, abs=0.12)
    assert loop.tuples == pytest.approx(plan.loop.tuples, rel=0.15)
    assert loop.bytes_read == pytest.approx(plan.loop.bytes_read, rel=0.05)
