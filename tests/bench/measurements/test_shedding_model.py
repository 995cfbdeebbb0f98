"""The model of load shedding beside a queue that is followed, and S2's claims."""

from collections import OrderedDict

import numpy as np
import numpy.typing as npt
import pytest
from tests.cost.models.scattered_joins import counts_per_tuple, make, scattered_case, scattered_table
from tests.operators.inside import inside

from semistream.bench.measurements.joins.shedding_model import considered_share, predict_shedding
from semistream.core.errors import InvalidArgument
from semistream.cost.clock import HDD
from semistream.cost.join_case import JoinCase
from semistream.cost.model import predict
from semistream.cost.models.part_rates import PartRates
from semistream.operators.shedding.load_shedding import SheddingConfig, Strategy
from semistream.storage import MasterTable

MEMORY = 1_000_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> MasterTable:
    return scattered_table(tmp_path_factory.mktemp("shedding") / "table", 50_000)


@pytest.fixture(scope="module")
def case(table: MasterTable) -> JoinCase:
    return scattered_case(table, 1.0)


def share_followed(rates: npt.NDArray[np.float64], window: int, per_load: int, position: float) -> float:
    """Return the answered share of a queue that takes in ``per_load`` tuples, reads once, and sheds its oldest."""
    loads = 4000
    arrivals = np.random.default_rng(5).choice(rates.size, size=(loads, per_load), p=rates)
    queue: OrderedDict[int, int] = OrderedDict()
    answered = number = 0
    for load, entering in enumerate(arrivals.tolist()):
        for partition in entering:
            queue[number] = partition
            number += 1
        while len(queue) > window:
            queue.popitem(last=False)
        numbers = list(queue)
        picked = queue[numbers[len(numbers) - 1 - int(position * (len(numbers) - 1))]]
        gone = [at for at in numbers if queue[at] == picked]
        for at in gone:
            del queue[at]
        answered += len(gone) if load >= loads // 4 else 0
    return answered / (per_load * (loads - loads // 4))


@pytest.mark.parametrize("position", [0.15, 0.5])
@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_the_answered_share_is_that_of_a_queue_that_is_followed(position: float, exponent: float) -> None:
    rates = np.arange(1, 41, dtype=np.float64) ** -exponent
    rates /= rates.sum()
    followed = share_followed(rates, window=200, per_load=20, position=position)
    assert considered_share(PartRates.each(rates), 200, 20, position) == pytest.approx(followed, rel=0.06)


def test_keeping_is_as_fast_as_not_shedding_with_the_same_window(case: JoinCase) -> None:
    config = SheddingConfig(strategy="keep")
    slow = predict("hybridjoin", case, MEMORY, HDD).tuples_per_s
    kept = predict_shedding("hybridjoin", case, MEMORY, HDD, arrivals_per_s=3 * slow, shedding=config)
    # The stream buffer has more of the memory, and the store some.
    assert 0.6 * slow < kept.tuples_per_s < slow
    assert kept.shed_per_s == pytest.approx(3 * slow - kept.tuples_per_s)
    random = SheddingConfig(strategy="random")
    assert predict_shedding("hybridjoin", case, MEMORY, HDD, arrivals_per_s=3 * slow, shedding=random) == kept


def overloaded(name: str, case: JoinCase, strategy: Strategy) -> float:
    """Return the share of three times the service rate that is answered."""
    arrivals_per_s = 3 * predict(name, case, MEMORY, HDD).tuples_per_s
    config = SheddingConfig(strategy=strategy)
    answered = predict_shedding(name, case, MEMORY, HDD, arrivals_per_s=arrivals_per_s, shedding=config)
    return answered.tuples_per_s / arrivals_per_s


def test_considering_beats_keeping_behind_a_cache(case: JoinCase) -> None:
    """S2 Theorem 1."""
    assert overloaded("chybridjoin", case, "keep") < overloaded("chybridjoin", case, "considering") < 1


def test_considering_loses_when_all_partitions_are_equal(table: MasterTable) -> None:
    """Where the oldest picks, twice as many have gathered for a read as wait for any partition on average."""
    uniform = scattered_case(table, 0.0)
    keep, considering = (overloaded("hybridjoin", uniform, strategy) for strategy in ("keep", "considering"))
    assert 0.4 < considering / keep < 0.75


def test_the_newest_and_the_oldest_tuple_are_worse_to_look_up_than_one_between(case: JoinCase) -> None:
    """S2, section 5.3.1."""
    arrivals_per_s = 3 * predict("hybridjoin", case, MEMORY, HDD).tuples_per_s
    newest, between, oldest = (
        predict_shedding(
            "hybridjoin",
            case,
            MEMORY,
            HDD,
            arrivals_per_s=arrivals_per_s,
            shedding=SheddingConfig(lookup_position=position),
        ).tuples_per_s
        for position in (0.0, 0.5, 1.0)
    )
    assert max(newest, oldest) < between


def test_without_overload_nothing_is_shed(case: JoinCase) -> None:
    prediction = predict_shedding("chybridjoin", case, MEMORY, HDD, arrivals_per_s=10.0)
    assert (prediction.tuples_per_s, prediction.shed_per_s) == (10.0, 0.0)


@pytest.mark.parametrize("name", ["hybridjoin", "chybridjoin"])
def test_memory_is_what_the_operator_reports(table: MasterTable, case: JoinCase, name: str) -> None:
    plan = predict_shedding(name, case, MEMORY, HDD, arrivals_per_s=1e9).plan
    with make(name, table, MEMORY, shedding="considering") as op:
        counts_per_tuple(op, 1.0, warm_up=1, tuples=1000)
        measured = op.memory().components
        assert plan.window_tuples == pytest.approx(inside(op).stream.capacity_tuples, rel=0.02)
    assert plan.memory.keys() == measured.keys()
    for component in plan.memory.keys() - {"stream buffer"}:
        assert plan.memory[component] == pytest.approx(measured[component], rel=0.02), component


def test_joins_that_cannot_consider_have_no_model(case: JoinCase) -> None:
    with pytest.raises(InvalidArgument, match="'meshjoin'"):
        predict_shedding("meshjoin", case, MEMORY, HDD, arrivals_per_s=1e6)
    with pytest.raises(InvalidArgument, match="arrivals_per_s=0"):
        predict_shedding("hybridjoin", case, MEMORY, HDD, arrivals_per_s=0)
