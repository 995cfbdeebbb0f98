"""Sales, any part of them on its own."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import InvalidArgument
from semistream.workloads import SALES_SCHEMA, STREAM_SCHEMA, Bursts, Sales
from tests.depth import examples


def sales(**arguments: Any) -> Sales:
    return Sales(Bursts(1000, period_s=10, seed=3), **{"key_domain": 10_000, "seed": 3, **arguments})


def test_a_sale_is_a_tuple_of_20_bytes_and_its_time() -> None:
    batch = sales().part(0, 1000)
    assert batch.schema.equals(SALES_SCHEMA)
    assert batch.select(STREAM_SCHEMA.names).nbytes == 20 * 1000


@examples(0.3)
@given(start=st.integers(0, 10**12), cuts=st.lists(st.integers(0, 500), max_size=5), exponent=st.sampled_from([0, 1.0]))
def test_sales_do_not_depend_on_where_they_are_cut(start: int, cuts: list[int], exponent: float) -> None:
    stream = sales(zipf_exponent=exponent, missing_share=0.2)
    bounds = [0, *sorted(cuts), 500]
    parts = [stream.part(start + low, high - low) for low, high in pairwise(bounds)]
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(stream.part(start, 500))


def test_a_fifth_of_the_products_makes_80_percent_of_the_sales() -> None:
    keys = sales(zipf_exponent=1.0).part(0, 300_000)["key"].to_numpy()
    counts = np.sort(np.bincount(keys, minlength=10_000))[::-1]
    assert counts[:2000].sum() / counts.sum() == pytest.approx(0.8, abs=0.06)


def test_sales_happen_when_they_arrive() -> None:
    stream = sales(start_us=1_700_000_000_000_000)
    times_us = stream.part(2000, 50)["time"].cast(pa.int64()).to_numpy() - 1_700_000_000_000_000
    assert np.array_equal(times_us, (stream.arrivals.times_s(2000, 50) * 1e6).astype(np.int64))


def test_columns_are_what_they_say() -> None:
    batch = sales(missing_share=0.25).part(5000, 40_000)
    assert batch["sale"].to_numpy().tolist() == list(range(5000, 45_000))
    assert np.bincount(batch["quantity"].to_numpy())[1:] == pytest.approx([40_000 / 9] * 9, rel=0.1)
    keys = batch["key"].to_numpy()
    assert 0 <= keys.min() <= keys.max() < 20_000
    assert np.mean(keys >= 10_000) == pytest.approx(0.25, abs=0.02)


def test_sales_depend_on_the_seed() -> None:
    assert not sales(seed=4).part(0, 100)["key"].equals(sales(seed=5).part(0, 100)["key"])


@pytest.mark.parametrize("arguments", [{"missing_share": 1.5}, {"key_domain": 0}, {"zipf_exponent": -1.0}])
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=str(next(iter(arguments.values())))):
        sales(**arguments)
