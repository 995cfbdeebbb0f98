"""The stream with temporal locality."""

import tracemalloc
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import InvalidArgument
from semistream.workloads import MASTER_SCHEMA, STREAM_SCHEMA, locality, locality_stream, synthetic


def test_each_interval_has_a_part_of_the_domain_to_itself() -> None:
    table = locality_stream(10_000, key_domain=1000, intervals=5, batch_rows=700).read_all()
    assert table.schema.equals(STREAM_SCHEMA)
    assert table.nbytes == 20 * 10_000
    part = table["key"].to_numpy() // 200
    assert np.array_equal(part, np.arange(10_000) // 2000)


def test_keys_are_as_many_as_rows_that_do_not_share_one() -> None:
    keys = locality_stream(5000, key_domain=1000, rows_per_key=10, intervals=4).read_all()["key"].to_numpy()
    assert 0 <= keys.min() <= keys.max() < 100
    assert keys[-1] >= 75


def test_an_interval_is_zipf_distributed() -> None:
    keys = locality_stream(40_000, key_domain=2000, intervals=2, scatter_hot_keys=False).read_all()["key"].to_numpy()
    for first, interval in ((0, keys[:20_000]), (1000, keys[20_000:])):
        counts = np.bincount(interval - first, minlength=1000)
        assert np.argmax(counts) == 0
        assert counts[0] / counts[9] == pytest.approx(10, rel=0.3)
    scattered = locality_stream(40_000, key_domain=2000, intervals=2).read_all()["key"].to_numpy()
    assert np.array_equal(np.sort(np.bincount(scattered, minlength=2000)), np.sort(np.bincount(keys, minlength=2000)))


def test_tuples_depend_on_the_seed() -> None:
    table = locality_stream(3000, key_domain=500, seed=3).read_all()
    assert locality_stream(3000, key_domain=500, seed=3).read_all().equals(table)
    assert not locality_stream(3000, key_domain=500, seed=4).read_all()["key"].equals(table["key"])


def test_a_stream_that_the_intervals_do_not_divide_ends_in_the_last() -> None:
    keys = locality_stream(1003, key_domain=100, intervals=10).read_all()["key"].to_numpy()
    assert keys.size == 1003
    assert keys.max() < 100
    assert locality_stream(0, key_domain=100, intervals=10).read_all().num_rows == 0


@pytest.mark.parametrize("rows_per_key", [1, 20])
def test_the_workload_goes_round_the_intervals_without_end(rows_per_key: int) -> None:
    workload = locality(50_000, rows_per_key=rows_per_key, intervals=25)
    keys = pa.Table.from_batches(islice(workload.stream(3), 4))["key"].to_numpy()
    keys_per_part = 50_000 // rows_per_key // 25
    part = keys // keys_per_part
    assert np.array_equal(part, np.arange(keys.size) // 1000 % 25)
    assert part[25_000] == 0


def test_every_key_of_the_workload_has_its_rows() -> None:
    workload = locality(50_000, rows_per_key=20)
    master = workload.master().read_all()
    assert master.num_rows == workload.num_rows == 50_000
    assert master.schema.equals(MASTER_SCHEMA)
    assert master.nbytes == 120 * 50_000
    assert np.array_equal(np.bincount(master["key"].to_numpy()), np.full(2500, 20))
    batch = next(workload.stream(1))
    assert batch.schema.equals(STREAM_SCHEMA)
    assert batch["key"].to_numpy().max() < 2500


def test_a_table_with_one_row_per_key_is_the_synthetic_one() -> None:
    plain, other = synthetic(1000, zipf_exponent=1.0), locality(1000)
    assert other.table_name == plain.table_name != locality(1000, rows_per_key=2).table_name
    assert other.master().read_all().equals(plain.master().read_all())
    assert next(other.stream(1)).equals(next(other.stream(1)))
    assert not next(other.stream(1)).equals(next(other.stream(2)))


def test_a_large_workload_is_not_made_before_it_is_read() -> None:
    workload = locality(100_000_000, rows_per_key=10)
    tracemalloc.start()
    try:
        workload.master().read_next_batch()
        next(workload.stream(1))
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "arguments",
    [{"intervals": 0}, {"intervals": 11}, {"rows_per_key": 0}, {"num_tuples": -1}, {"tuples_per_interval": 0}],
)
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(arguments))):
        locality_stream(**{"num_tuples": 10, "key_domain": 10, "intervals": 5, **arguments})
