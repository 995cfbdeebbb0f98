"""Weather reports: synthetic ones, and the reader of the archive."""

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from semistream.core.errors import InvalidArgument, MissingData, SchemaMismatch
from semistream.workloads import cloud_report_workload, cloud_reports, weather
from semistream.workloads.datasets.cloud_reports import CLOUD_REPORT_SCHEMA, COLUMNS
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


# Columns of the archive, with a bar between them.
FIRST = "82|12|01|00|1|-3350| 1825|68816|1| 3|7| 5| 4| 5| 7|-1|300|900|2|9| 0| 512|-110".replace("|", "")
OTHER = "91|11|30|21|0| 9000|36000|01000|2|-1|0|-1|-1|-1|-1|-1|900|900|9|9|10|-900|  17".replace("|", "")


def test_a_line_has_56_characters() -> None:
    assert sum(column.width for column in COLUMNS) == len(FIRST) == len(OTHER) == 56


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("more", ["", "10132 50180 250 3010120"])
@pytest.mark.parametrize("last_newline", [True, False])
def test_reports_are_read_from_their_columns(tmp_path: Path, newline: str, more: str, last_newline: bool) -> None:
    path = tmp_path / "DEC82L"
    more = more.ljust(24) if more else ""
    text = FIRST + more + newline + OTHER + more + (newline if last_newline else "")
    path.write_bytes(text.encode())
    first, other = cloud_reports([path]).read_all().to_pylist()
    assert str(first.pop("time")) == "1982-12-01 00:00:00"
    assert first == {
        "sky_brightness": 1,
        "lat": -3350,
        "lon": 1825,
        "station": 68816,
        "land_or_ocean": 1,
        "present_weather": 3,
        "total_cover": 7,
        "lower_amount": 5,
        "lower_base_height": 4,
        "low_type": 5,
        "middle_type": 7,
        "high_type": None,
        "middle_amount": 300,
        "high_amount": None,
        "middle_visible_amount": 2,
        "high_visible_amount": None,
        "change_code": 0,
        "solar_altitude": 512,
        "lunar_illuminance": -110,
    }
    assert str(other["time"]) == "1991-11-30 21:00:00"
    assert [other[name] for name in ("lon", "lat", "station", "change_code")] == [36000, 9000, 1000, 10]
    assert [other[name] for name in ("solar_altitude", "lunar_illuminance")] == [-900, 17]
    assert other["present_weather"] is None


def test_months_are_a_workload(tmp_path: Path) -> None:
    for name, line, lines in (("APR82", FIRST, 40_000), ("AUG82", OTHER, 3), ("DEC82", FIRST, 20_000)):
        (tmp_path / name).write_text((line + "\n") * lines)
    workload = cloud_report_workload([tmp_path / "APR82", tmp_path / "AUG82"], [tmp_path / "DEC82"])
    master = workload.master().read_all()
    assert master.num_rows == workload.num_rows == 40_003
    assert set(workload.master_schema.names) & set(CLOUD_REPORT_SCHEMA.names) == {"lon"}
    assert master["lon"].to_pylist()[-4:] == [1825, 36000, 36000, 36000]
    assert sum(batch.num_rows for batch in itertools.islice(workload.stream(1), 4)) == 40_000
    assert workload.table_name == "cloud-reports-APR82-AUG82"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not begin with a line of 56 or 80"),
        (FIRST[:-1] + "\n", "does not begin with a line of 56 or 80"),
        (FIRST, "does not begin with a line of 56 or 80"),
        (f"{FIRST}\n{FIRST[:30]}", "ends inside of a line"),
        (f"{FIRST}\n{'x' * 56}\n", "no cloud report in line 2"),
        (f"{FIRST}\n{FIRST.replace('821201', '821301')}\n", "no cloud report in line 2"),
        (f"{OTHER}\n{OTHER.replace('911130', '911131')}\n", "no cloud report in line 2"),
        (f"{FIRST}\n{FIRST.replace('68816', '6 816')}\n", "no cloud report in line 2"),
        (f"{FIRST}\n{FIRST.replace('68816', '     ')}\n", "no cloud report in line 2"),
        (f"{FIRST}\n{FIRST}x{FIRST}\n", "no cloud report in line 2"),
    ],
)
def test_what_is_not_of_the_archive_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(SchemaMismatch, match=message):
        cloud_reports([path]).read_all()


def test_missing_files_are_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"nowhere: give a file of CDIAC's NDP-026B"):
        cloud_reports([tmp_path / "nowhere"])
    with pytest.raises(InvalidArgument, match="stream="):
        cloud_report_workload([tmp_path / "nowhere"], [])
