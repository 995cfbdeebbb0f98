"""Keys of R drawn with repetition: some have several rows, some none."""

import itertools
import tracemalloc

import numpy as np
import numpy.typing as npt
import pytest

from semistream.core.errors import InvalidArgument
from semistream.workloads import MASTER_SCHEMA, STREAM_SCHEMA, Workload, repeated, skewed_master

ROWS = 50_000


def keys_of_master(workload: Workload) -> npt.NDArray[np.int64]:
    return np.asarray(workload.master().read_all()["key"].to_numpy())


def keys_of_stream(workload: Workload, seed: int, batches: int) -> npt.NDArray[np.int64]:
    return np.concatenate([batch["key"].to_numpy() for batch in itertools.islice(workload.stream(seed), batches)])


def test_rows_per_key_are_poisson_distributed() -> None:
    keys = keys_of_master(repeated(ROWS, zipf_exponent=1.0))
    assert 0 <= keys.min() <= keys.max() < ROWS
    shares = np.bincount(np.bincount(keys, minlength=ROWS)) / ROWS
    expected = np.exp(-1) / np.array([1, 1, 2, 6, 24])
    assert np.allclose(shares[:5], expected, atol=0.006)
    assert shares[0] == pytest.approx(0.368, abs=0.006)


def test_a_tuple_of_a_uniform_stream_meets_one_row_on_average() -> None:
    workload = repeated(ROWS, zipf_exponent=0.0)
    counts = np.bincount(keys_of_master(workload), minlength=ROWS)
    met = counts[keys_of_stream(workload, 3, 10)]
    assert met.mean() == pytest.approx(1, abs=0.02)
    assert np.mean(met == 0) == pytest.approx(0.368, abs=0.01)


def test_sizes_are_those_stated() -> None:
    workload = repeated(2000, zipf_exponent=0.5)
    master = workload.master().read_all()
    assert (master.num_rows, master.nbytes // master.num_rows) == (workload.num_rows, 120)
    assert master.schema.equals(MASTER_SCHEMA)
    batch = next(workload.stream(1))
    assert batch.nbytes // batch.num_rows == 20
    assert batch.schema.equals(STREAM_SCHEMA)


def test_rows_depend_on_the_seed_and_tables_are_named_by_what_decides_them() -> None:
    workload = repeated(2000, zipf_exponent=0.5, seed=3)
    same = repeated(2000, zipf_exponent=1.0, seed=3)
    other = repeated(2000, zipf_exponent=0.5, seed=4)
    assert same.table_name == workload.table_name != other.table_name
    assert same.master().read_all().equals(workload.master().read_all())
    assert not other.master().read_all()["key"].equals(workload.master().read_all()["key"])
    assert next(workload.stream(5)).equals(next(workload.stream(5)))
    assert not next(workload.stream(5)).equals(next(workload.stream(6)))


def test_values_of_a_skewed_table_are_zipf_distributed_and_as_frequent_in_the_stream() -> None:
    workload = skewed_master(ROWS, master_exponent=1.0, zipf_exponent=0.5, key_domain=1000)
    in_master = np.bincount(keys_of_master(workload), minlength=1000)
    in_stream = np.bincount(keys_of_stream(workload, 3, 20), minlength=1000)
    assert in_master.size == in_stream.size == 1000
    assert np.argmax(in_master) == np.argmax(in_stream)
    by_rank = np.sort(in_master)[::-1]
    assert by_rank[0] / by_rank[9] == pytest.approx(10, rel=0.1)
    by_rank = np.sort(in_stream)[::-1]
    assert by_rank[0] / by_rank[99] == pytest.approx(10, rel=0.1)
    # The mean fan-out: rows of a key times its share of the stream, over all keys.
    ranks = np.arange(1, 1001)
    fan_out = ROWS * np.dot(1 / ranks / (1 / ranks).sum(), ranks**-0.5 / (ranks**-0.5).sum())
    assert in_master[keys_of_stream(workload, 4, 20)].mean() == pytest.approx(fan_out, rel=0.05)


def test_hot_keys_of_a_skewed_table_may_be_others_than_those_of_the_stream() -> None:
    workload = skewed_master(ROWS, master_exponent=1.0, zipf_exponent=1.0, key_domain=1000, same_hot_keys=False)
    in_master = np.bincount(keys_of_master(workload), minlength=1000)
    in_stream = np.bincount(keys_of_stream(workload, 3, 5), minlength=1000)
    assert np.argmax(in_master) != np.argmax(in_stream)


def test_tables_of_another_skew_have_another_name() -> None:
    names = {
        skewed_master(100, master_exponent=exponent, zipf_exponent=0.5, key_domain=domain, seed=seed).table_name
        for exponent, domain, seed in itertools.product((0.1, 1.0), (None, 50), (0, 1))
    }
    assert len(names) == 8


@pytest.mark.parametrize(
    "workload",
    [
        repeated(100_000_000, zipf_exponent=1.0),
        skewed_master(100_000_000, master_exponent=1.0, zipf_exponent=0.5),
    ],
    ids=["repeated", "skewed"],
)
def test_the_first_batches_of_a_large_workload_take_little_memory(workload: Workload) -> None:
    tracemalloc.start()
    try:
        assert workload.master().read_next_batch().num_rows > 0
        assert next(workload.stream(1)).num_rows > 0
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 30_000_000


def test_arguments_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="domain=0"):
        repeated(0, zipf_exponent=1.0)
    with pytest.raises(InvalidArgument, match="exponent=-1"):
        skewed_master(10, master_exponent=-1, zipf_exponent=1.0)
    with pytest.raises(InvalidArgument, match="exponent=-1"):
        next(repeated(10, zipf_exponent=-1).stream(1))
