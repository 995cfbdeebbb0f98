"""Real data as workloads: what was measured of them when they were collected is found again."""

import datetime as dt
import itertools
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semistream.core.errors import EmptyTable, InvalidArgument, MissingData
from semistream.workloads import Workload, nycflights13, online_retail, ship_weather
from semistream.workloads.datasets.parquet_rows import ParquetRows
from tests.depth import slow_unless

DATA = Path(__file__).parents[3].parent / "shared" / "data"
SHIPS, RETAIL, FLIGHTS = DATA / "ship_weather", DATA / "online_retail", DATA / "nycflights13"

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason=f"the real data sets are not at {DATA}")


def one_pass(workload: Workload, num_tuples: int) -> pa.Table:
    """Return the stream up to where it begins anew."""

    def batches() -> Iterator[pa.RecordBatch]:
        read = 0
        for batch in workload.stream(0):
            yield batch.slice(0, num_tuples - read)
            read += batch.num_rows
            if read >= num_tuples:
                return

    return pa.Table.from_batches(batches(), workload.stream_schema)


def met_rows(workload: Workload, stream: pa.Table) -> Any:
    """Return how many master rows each tuple of the stream meets; 0 for a key that is null."""
    counts = workload.master().read_all()[workload.key].value_counts()
    rows = {entry["values"].as_py(): entry["counts"].as_py() for entry in counts}
    rows.pop(None, None)
    keys = stream[workload.key].combine_chunks().dictionary_encode()
    by_code = np.array([rows.get(key, 0) for key in keys.dictionary.to_pylist()] + [0])
    return by_code[keys.indices.fill_null(len(by_code) - 1).to_numpy()]


@needs_data
@pytest.mark.parametrize(
    ("make", "num_rows", "num_tuples", "unmatched", "joined"),
    [
        (partial(ship_weather, SHIPS, split="B"), 191_995, 289_467, 0.083, 3_889_272),
        slow_unless(False, partial(ship_weather, SHIPS, split="C"), 996_291, 807_603, 0.998, 44_656_016),
        slow_unless(False, partial(ship_weather, SHIPS, split="G"), 191_995, 807_603, 0.036, 48_022_425),
        (partial(online_retail, RETAIL), 18_044, 541_909, 0.0, 4_102_012),
        (partial(online_retail, RETAIL, master="customers"), 4372, 541_909, 0.249, 406_829),
        (partial(online_retail, RETAIL, master="products", cut=dt.date(2011, 7, 1)), 3651, 296_006, 0.107, 264_485),
        (partial(nycflights13, FLIGHTS), 3322, 336_776, 0.156, 284_170),
        (partial(nycflights13, FLIGHTS, master="airports"), 1458, 336_776, 0.023, 329_174),
    ],
    ids=["B", "C", "G", "variants", "customers", "earlier products", "planes", "airports"],
)
def test_sizes_and_matches_are_those_of_the_data(
    make: Callable[[], Workload], num_rows: int, num_tuples: int, unmatched: float, joined: int
) -> None:
    workload = make()
    assert workload.num_rows == num_rows
    assert workload.master().read_all().schema.equals(workload.master_schema)
    assert set(workload.master_schema.names) & set(workload.stream_schema.names) == {workload.key}
    stream = one_pass(workload, num_tuples)
    met = met_rows(workload, stream)
    assert int(met.sum()) == joined
    assert float(np.mean(met == 0)) == pytest.approx(unmatched, abs=0.001)
    assert one_pass(workload, num_tuples + 100).slice(num_tuples).equals(stream.slice(0, 100))


@needs_data
def test_a_seed_decides_where_the_stream_begins() -> None:
    workload = nycflights13(FLIGHTS)
    firsts = [next(workload.stream(seed))["seq"][0].as_py() for seed in (0, 1, 1, 2)]
    assert firsts[1] == firsts[2]
    assert len(set(firsts)) == 3
    order = pa.Table.from_batches(itertools.islice(workload.stream(1), 30))["seq"].to_numpy()
    whole = pa.Table.from_batches(itertools.islice(workload.stream(0), 1))["seq"].to_numpy()
    assert np.all((np.diff(order) == 1) | (order[1:] == whole[0]))


@pytest.mark.parametrize("make", [ship_weather, online_retail, nycflights13])
def test_missing_data_is_named_with_the_remedy(tmp_path: Path, make: Callable[[Path], Workload]) -> None:
    with pytest.raises(MissingData, match=r"there is no .*\.parquet: give the folder with"):
        make(tmp_path / "nowhere")


def test_names_are_checked(tmp_path: Path) -> None:
    makes: list[Callable[..., Workload]] = [online_retail, nycflights13]
    for make in makes:
        with pytest.raises(InvalidArgument, match="master='pirates'"):
            make(tmp_path, master="pirates")
    wrong: Any = "Z"
    with pytest.raises(InvalidArgument, match="split='Z'"):
        ship_weather(tmp_path, split=wrong)


def test_rows_of_a_file_come_from_any_row_on_in_order(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": np.arange(50_000)}), tmp_path / "n.parquet", row_group_size=7000)
    rows = ParquetRows(tmp_path / "n.parquet", remedy="none")
    firsts = []
    for seed in range(5):
        numbers = pa.Table.from_batches(itertools.islice(rows.endless(seed), 20))["n"].to_numpy()
        assert np.array_equal(numbers, (numbers[0] + np.arange(numbers.size)) % 50_000)
        firsts.append(int(numbers[0]))
    assert firsts[0] == 0
    assert all(first % 7000 for first in firsts[1:]), "a stream begins inside of a row group, too"
    assert rows.num_rows == 50_000


def test_a_stream_without_rows_says_so_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": np.arange(0)}), tmp_path / "n.parquet")
    with pytest.raises(EmptyTable, match=r"n\.parquet"):
        next(ParquetRows(tmp_path / "n.parquet", remedy="none").endless(0))
