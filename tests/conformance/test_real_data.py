"""Joins of real data, against DuckDB, in budgets of a few per cent of the table."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import semistream as ss
from semistream.core.semantics import How
from semistream.operators.registry import algorithm
from tests.depth import covering, slow_unless

DATA = Path(__file__).parents[2].parent / "shared" / "data"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the real data sets are not at {DATA}")


def every_algorithm(*quick: str) -> pytest.MarkDecorator:
    """Run a test with all algorithms; those that are not ``quick`` make it slow."""
    assert set(quick) <= set(ss.algorithm_names())
    return pytest.mark.parametrize("name", [slow_unless(name in quick, name) for name in ss.algorithm_names()])


def digest(connection: duckdb.DuckDBPyConnection, rows: pa.Table) -> tuple[int, int]:
    """Return the number of rows and a sum of their hashes: equal for equal multisets."""
    connection.register("rows", rows)
    columns = ", ".join(f'"{name}"' for name in rows.column_names)
    count, total = connection.sql(f"SELECT count(*), sum(hash({columns})) FROM rows").fetchall()[0]
    return int(count), int(total or 0)


def check(tmp_path: Path, name: str, stream: pa.Table, master: pa.Table, key: list[str], how: How, memory: int) -> int:
    """Join and compare with DuckDB; return the number of joined rows."""
    supported = algorithm(name)
    table = ss.stage(master, tmp_path / "master", key=key, layout=supported.layouts[0], page_bytes="16KB", buckets=2)
    op = ss.operator(name, table, stream.schema, on=key, how=how, memory=memory)
    joined = pa.Table.from_batches(ss.run(op, stream.to_batches(max_chunksize=20_000)), op.spec.output_schema)
    with duckdb.connect() as connection:
        connection.register("stream", stream)
        connection.register("master", master)
        using = ", ".join(key)
        sql = f"SELECT * FROM stream {how.upper()} JOIN master USING ({using})"
        expected = connection.sql(sql).to_arrow_table().select(joined.column_names)
        assert digest(connection, joined) == digest(connection, expected.cast(joined.schema))
    return int(joined.num_rows)


@pytest.mark.parametrize(("name", "how"), covering(ss.algorithm_names(), ["inner", "left", "semi", "anti"]))
def test_flights_with_planes(tmp_path: Path, name: str, how: How) -> None:
    flights = pq.read_table(DATA / "nycflights13/flights.parquet").slice(0, 30_000)
    planes = pq.read_table(DATA / "nycflights13/planes.parquet")
    check(tmp_path, name, flights, planes, ["tailnum"], how, 2_000_000)


@every_algorithm("ssbj", "hybridjoin")
def test_flights_with_the_weather_of_their_hour(tmp_path: Path, name: str) -> None:
    flights = pq.read_table(DATA / "nycflights13/flights.parquet").slice(0, 40_000)
    weather = pq.read_table(DATA / "nycflights13/weather.parquet")
    check(tmp_path, name, flights, weather, ["origin", "time_hour"], "left", 2_000_000)


@every_algorithm("meshjoin", "sweepjoin")
def test_invoice_lines_with_variants_of_their_product_many_to_many(tmp_path: Path, name: str) -> None:
    lines = pq.read_table(DATA / "online_retail/lines.parquet").slice(300_000, 20_000)
    variants = pq.read_table(DATA / "online_retail/product_variants.parquet")
    variants = variants.rename_columns([c if c == "stock_code" else f"variant_{c}" for c in variants.column_names])
    assert check(tmp_path, name, lines, variants, ["stock_code"], "inner", 2_000_000) > 100_000


@every_algorithm("cmeshjoin", "chybridjoin")
def test_ships_at_sea_with_earlier_reports_of_their_longitude(tmp_path: Path, name: str) -> None:
    """Split B of the data's README, of which the inner join has 3,889,272 rows; here a slice of its stream."""
    reports = pq.read_table(DATA / "ship_weather/ship_reports.parquet", columns=["report_id", "ts", "lon", "pos_code"])
    at_sea = reports.filter(pc.field("pos_code").isin([3, 4]))
    cut = pa.scalar("1942-01-01").cast(pa.timestamp("us")).cast(at_sea.schema.field("ts").type, safe=False)
    master = at_sea.filter(pc.field("ts") < cut).select(["lon", "report_id"]).rename_columns(["lon", "earlier"])
    stream = at_sea.filter(pc.field("ts") >= cut).select(["lon", "report_id"]).slice(0, 20_000)
    assert check(tmp_path, name, stream, master, ["lon"], "inner", 1_000_000) > 100_000
