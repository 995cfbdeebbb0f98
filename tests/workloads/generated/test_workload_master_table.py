"""The generated master table."""

import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import InvalidArgument
from semistream.workloads import MASTER_SCHEMA, master_table


def test_a_row_takes_120_bytes() -> None:
    table = master_table(10_000).read_all()
    assert table.schema.equals(MASTER_SCHEMA)
    assert table.nbytes == 120 * 10_000


@pytest.mark.parametrize("num_rows", [1, 2, 3, 1000, 65_537])
def test_every_key_comes_once(num_rows: int) -> None:
    keys = master_table(num_rows, seed=5).read_all()["key"].to_numpy()
    assert np.array_equal(np.sort(keys), np.arange(num_rows))


def test_keys_are_in_the_order_asked_for() -> None:
    assert np.array_equal(master_table(500, key_order="sequential").read_all()["key"].to_numpy(), np.arange(500))
    permuted = master_table(10_000).read_all()["key"].to_numpy()
    assert abs(np.corrcoef(permuted, np.arange(10_000))[0, 1]) < 0.05


def test_rows_depend_on_the_seed_and_not_on_the_batches() -> None:
    table = master_table(5000, seed=3, batch_rows=5000).read_all()
    assert master_table(5000, seed=3, batch_rows=77).read_all().equals(table)
    for name in ("key", "supplier", "price", "payload"):
        assert not master_table(5000, seed=4).read_all()[name].equals(table[name])


def test_a_part_is_made_without_the_rows_before_it() -> None:
    table = master_table(5000, seed=3).read_all()
    for part in (range(0, 1), range(1234, 4321), range(4999, 5000), range(70, 70)):
        assert master_table(5000, seed=3, part=part, batch_rows=100).read_all().equals(table[part.start : part.stop])


def test_keys_are_repeated() -> None:
    counts = np.bincount(master_table(1000, rows_per_key=7).read_all()["key"].to_numpy())
    assert counts.tolist() == [7] * 142 + [6]


def test_memory_does_not_grow_with_the_table() -> None:
    before_bytes = pa.total_allocated_bytes()
    tracemalloc.start()
    try:
        for batch in master_table(1_000_000, batch_rows=10_000):
            assert batch.num_rows == 10_000
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 120 * 10_000 * 5
    del batch
    assert pa.total_allocated_bytes() - before_bytes < 120 * 10_000 * 5


@pytest.mark.parametrize("arguments", [{"num_rows": 0}, {"num_rows": 5, "batch_rows": 0}])
def test_sizes_must_be_positive(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="at least 1"):
        master_table(**arguments)


@pytest.mark.parametrize(
    "arguments", [{"rows_per_key": 0}, {"part": range(5, 11)}, {"part": range(0, 4, 2)}, {"part": range(-1, 4)}]
)
def test_parts_and_repetition_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(arguments))):
        master_table(10, **arguments)
