"""The tuner with hardly any memory: what the operator can be made with is predicted, and its memory suffices."""

import pyarrow as pa
import pytest

from semistream.core.semantics import JoinSpec
from semistream.cost.advice.tuner import highest_rate, least_budget
from semistream.cost.clock import HDD
from semistream.cost.join_case import JoinCase, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import model_names

TABLE = TableShape(rows=10_000, pages=20, num_bytes=1_200_000, layout="clustered", files=5, buckets=4)


@pytest.mark.parametrize("algorithm", model_names())
def test_the_least_memory_that_an_algorithm_works_with_can_be_tuned(algorithm: str) -> None:
    spec = JoinSpec.resolve(pa.schema({"id": "int64"}), pa.schema({"id": "int64", "name": "int64"}), "id")
    case = JoinCase(TABLE, StreamShape(keys=KeyDistribution.zipf(TABLE.rows, 1.0)), spec)
    least_bytes = least_budget(algorithm, case)
    best = highest_rate(algorithm, case, least_bytes, HDD)
    assert best.tuples_per_s > 0
    assert best.plan.memory_bytes <= least_bytes
