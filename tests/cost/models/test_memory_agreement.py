"""What models say of memory is what operators report."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from semistream.core.errors import BudgetTooSmall
from semistream.cost.calibration.feeder import Feeder
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import model
from semistream.storage import MasterTable
from tests.cost.models.real_joins import STREAM, TEXT_STREAM, batches, case_of, make, run_steps, staged
from tests.operators.inside import inside

KEYS = 20_000
UNIFORM = KeyDistribution.zipf(KEYS, 0.0)
FIXED = ("disk buffer", "index", "results")

TABLES: dict[str, dict[str, Any]] = {
    "heap": {},
    "text": {"text": True},
    "large pages": {"page_bytes": 32_768},
    "two rows per key": {"rows_per_key": 2},
    "clustered": {"layout": "clustered"},
}


@pytest.fixture(scope="module")
def table_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], MasterTable]:
    """Give the table of a kind, which is staged once for all tests."""
    return cache(lambda kind: staged(tmp_path_factory.mktemp("table") / "r", keys=KEYS, **TABLES[kind]))


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("memory", [300_000, 1_000_000, 5_000_000])
@pytest.mark.parametrize("schema", [STREAM, TEXT_STREAM], ids=["stream of numbers", "stream with text"])
@pytest.mark.parametrize("name", ["meshjoin", "cmeshjoin"])
def test_window_and_components(
    table_of: Callable[[str], MasterTable], kind: str, memory: int, schema: pa.Schema, name: str
) -> None:
    with make(name, table_of(kind), memory, schema) as op:
        plan = model(name).plan(case_of(op, keys=UNIFORM, rows_per_key=TABLES[kind].get("rows_per_key", 1)), memory, {})
        run_steps(op, Feeder(batches(schema, domain=KEYS)), 3)
        measured = op.memory().components
        assert plan.settings["b"] == inside(op).b
        assert plan.loops_per_cycle == op.steps_per_cycle
        assert plan.window_tuples == pytest.approx(inside(op).stream.capacity_tuples, rel=0.02)
        assert plan.memory.keys() == measured.keys()
        for component in plan.memory.keys() - {"stream buffer"}:
            assert plan.memory[component] == pytest.approx(measured[component], rel=0.02), component
        assert measured["stream buffer"] <= plan.memory["stream buffer"]
        assert plan.memory_bytes <= memory


@pytest.mark.parametrize("layout", ["heap", "clustered"])
@pytest.mark.parametrize("schema", [STREAM, TEXT_STREAM], ids=["stream of numbers", "stream with text"])
@pytest.mark.parametrize("memory", [500_000, 2_000_000])
def test_ssbj_without_anything_to_cache(
    table_of: Callable[[str], MasterTable], layout: str, schema: pa.Schema, memory: int
) -> None:
    keys = 400_000  # so many that no two tuples of a window have the same
    with make("ssbj", table_of(layout), memory, schema) as op:
        case = case_of(op, keys=KeyDistribution.zipf(keys * 100, 0.0), missing=1.0)
        plan = model("ssbj").plan(case, memory, {})
        assert op.steps_per_cycle is not None
        # Four rounds of three scans: the cache gives back what it does not use.
        run_steps(op, Feeder(batches(schema, domain=keys * 100, first_key=KEYS)), 12 * op.steps_per_cycle)
        measured = op.memory().components
        for component in FIXED:
            assert plan.memory[component] == pytest.approx(measured[component], rel=0.02), component
        assert plan.window_tuples == pytest.approx(inside(op).stream.capacity_tuples, rel=0.02)


@pytest.mark.parametrize("name", ["meshjoin", "cmeshjoin", "ssbj"])
@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_too_small_a_budget_names_the_least(table_of: Callable[[str], MasterTable], name: str, layout: str) -> None:
    table = table_of(layout)
    with make(name, table, 10_000_000) as op:
        case = case_of(op, keys=UNIFORM)
    with pytest.raises(BudgetTooSmall, match=f"give at least .* for {name}|{name}.*give at least") as predicted:
        model(name).plan(case, 20_000, {})
    with pytest.raises(BudgetTooSmall) as measured:
        make(name, table, 20_000)
    least_bytes = measured.value.least_bytes
    assert least_bytes is not None
    assert predicted.value.least_bytes == pytest.approx(least_bytes, rel=0.02)
    with pytest.raises(BudgetTooSmall):
        model(name).settings_to_try(case, 20_000)
    # The least is enough, but for what the results of a larger budget take more.
    model(name).plan(case, int(least_bytes * 1.1), {})
