"""Synthetic weather reports."""

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from semistream.core.errors import InvalidArgument
from semistream.workloads import weather
from semistream.workloads.generated.weather import LONGITUDES, longitude_shares

DATA = Path(__file__).parents[2].parent / "shared" / "data" / "ship_weather" / "ship_reports.parquet"


@pytest.mark.parametrize("row_bytes", [128, 32])
def test_sizes_and_domain_are_those_stated(row_bytes: int) -> None:
    workload = weather(100_000, row_bytes=row_bytes)
    master = workload.master().read_all()
    batch = next(workload.stream(1))
    assert master.num_rows == workload.num_rows == 100_000
    assert master.nbytes == row_bytes * master.num_rows
    assert batch.nbytes == row_bytes * batch.num_rows
    assert master.schema.equals(workload.master_schema)
    assert batch.schema.equals(workload.stream_schema)
    for keys in (master["lon"].to_numpy(), batch["lon"].to_numpy()):
        assert 0 <= keys.min() <= keys.max() <= 36_000
    assert "synthetic" in workload.name
    assert workload.provenance.startswith("synthetic")


def test_both_sides_have_the_skew_of_the_profile_and_the_same_frequent_longitudes() -> None:
    workload = weather(300_000, row_bytes=32)
    shares = longitude_shares()
    in_master = np.bincount(workload.master().read_all()["lon"].to_numpy(), minlength=LONGITUDES)
    stream = pa.Table.from_batches(itertools.islice(workload.stream(3), 18))["lon"].to_numpy()
    in_stream = np.bincount(stream, minlength=LONGITUDES)
    hottest = np.argsort(in_master)[::-1][:1000]
    assert in_master[hottest].sum() / 300_000 == pytest.approx(shares[:1000].sum(), abs=0.02)
    assert in_stream[hottest].sum() / stream.size == pytest.approx(shares[:1000].sum(), abs=0.03)
    # What a tuple meets: rows of its longitude. More than a uniform stream would, as the same places are frequent.
    assert in_master[stream].mean() == pytest.approx(300_000 * np.dot(shares, shares), rel=0.03)
    assert np.mean(in_master == 0) > (LONGITUDES - 31_228) / LONGITUDES - 0.001


def test_frequent_longitudes_have_their_share() -> None:
    shares = longitude_shares()
    assert float(shares[0]) == pytest.approx(0.0018, abs=0.00005)
    assert float(shares[:1000].sum()) == pytest.approx(0.2, abs=0.005)


def test_rows_depend_on_the_seed() -> None:
    workload = weather(1000, seed=3)
    assert weather(1000, seed=3).master().read_all().equals(workload.master().read_all())
    other = weather(1000, seed=4)
    assert other.table_name != workload.table_name
    assert not other.master().read_all().equals(workload.master().read_all())
    assert next(workload.stream(5)).equals(next(workload.stream(5)))
    assert not next(workload.stream(5)).equals(next(workload.stream(6)))
    first, second = itertools.islice(workload.stream(5), 2)
    assert not first["lon"].equals(second["lon"])
    assert second["report"][0].as_py() == first.num_rows


def test_a_large_table_is_not_made_before_it_is_read() -> None:
    workload = weather(20_000_000)
    tracemalloc.start()
    try:
        workload.master().read_next_batch()
        next(workload.stream(1))
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("rows", "row_bytes"), [(0, 128), (10, 16), (10, 33)])
def test_arguments_are_checked(rows: int, row_bytes: int) -> None:
    with pytest.raises(InvalidArgument, match=f"rows={rows}" if not rows else f"row_bytes={row_bytes}"):
        weather(rows, row_bytes=row_bytes)


@pytest.mark.skipif(not DATA.is_file(), reason=f"the real reports are not at {DATA}")
def test_the_profile_is_that_of_the_real_reports() -> None:
    reports = pq.read_table(DATA, columns=["lon", "pos_code"])
    at_sea = reports.filter(pc.field("pos_code").isin([3, 4]))["lon"].to_numpy()
    measured = np.sort(np.bincount(at_sea, minlength=LONGITUDES))[::-1] / at_sea.size
    shares = longitude_shares()
    assert np.count_nonzero(shares) == np.count_nonzero(measured)
    assert np.abs(np.cumsum(shares) - np.cumsum(measured)).max() < 0.005
    assert np.dot(shares, shares) == pytest.approx(np.dot(measured, measured), rel=0.03)
