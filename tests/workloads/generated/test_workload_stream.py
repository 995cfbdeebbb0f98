"""The generated stream."""

import tracemalloc
from typing import Any

import numpy as np
import pytest

from semistream.core.errors import InvalidArgument
from semistream.workloads import STREAM_SCHEMA, stream


def test_a_tuple_takes_20_bytes() -> None:
    table = stream(10_000, key_domain=100).read_all()
    assert table.schema.equals(STREAM_SCHEMA)
    assert table.nbytes == 20 * 10_000


def test_tuples_depend_on_the_seed() -> None:
    arguments: dict[str, Any] = {"key_domain": 1000, "zipf_exponent": 1.0, "missing_share": 0.1}
    table = stream(3000, seed=3, **arguments).read_all()
    assert stream(3000, seed=3, **arguments).read_all().equals(table)
    assert not stream(3000, seed=4, **arguments).read_all()["key"].equals(table["key"])


def test_tuples_are_numbered_over_all_batches() -> None:
    sales = stream(1000, key_domain=10, batch_rows=300).read_all()["sale"].to_numpy()
    assert np.array_equal(sales, np.arange(1000))


@pytest.mark.parametrize("missing_share", [0.0, 0.25, 1.0])
def test_share_of_keys_without_a_master_row(missing_share: float) -> None:
    keys = stream(40_000, key_domain=500, missing_share=missing_share).read_all()["key"].to_numpy()
    assert 0 <= keys.min() <= keys.max() < 1000
    assert np.mean(keys >= 500) == pytest.approx(missing_share, abs=0.02)


def test_hot_keys_are_scattered_or_first() -> None:
    first = stream(50_000, key_domain=1000, zipf_exponent=1.0, scatter_hot_keys=False).read_all()["key"].to_numpy()
    scattered = stream(50_000, key_domain=1000, zipf_exponent=1.0).read_all()["key"].to_numpy()
    assert np.argmax(np.bincount(first)) == 0
    counts_first, counts_scattered = np.bincount(first, minlength=1000), np.bincount(scattered, minlength=1000)
    assert np.array_equal(np.sort(counts_first), np.sort(counts_scattered))
    assert not np.array_equal(counts_first, counts_scattered)


def test_memory_grows_neither_with_the_stream_nor_with_the_domain() -> None:
    tracemalloc.start()
    try:
        for batch in stream(1_000_000, key_domain=10**12, zipf_exponent=0.9, batch_rows=10_000):
            assert batch.num_rows == 10_000
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 5_000_000


def test_an_empty_stream_has_no_batches() -> None:
    assert stream(0, key_domain=10).read_all().num_rows == 0


@pytest.mark.parametrize("arguments", [{"num_tuples": -1}, {"batch_rows": 0}, {"missing_share": 1.5}])
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(arguments))):
        stream(**{"num_tuples": 10, "key_domain": 10, **arguments})
