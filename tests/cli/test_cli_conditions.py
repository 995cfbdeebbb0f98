"""Conditions written as text, alone and in ``semistream join``."""

from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

import semistream as ss
from semistream.cli.app import app
from semistream.cli.arguments import parse_condition, parse_key
from semistream.core.conditions import Condition
from semistream.core.errors import InvalidArgument


def test_a_key_may_have_several_columns_and_another_name_in_the_table() -> None:
    assert parse_key("a,b=c") == {"a": "a", "b": "c"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a<b", ss.compare("a", "<", "b")),
        ("amount <= credit_limit", ss.compare("amount", "<=", "credit_limit")),
        (" a > b ", ss.compare("a", ">", "b")),
        ("a >= b", ss.compare("a", ">=", "b")),
        ('"an amount" < "the <limit>"', ss.compare("an amount", "<", "the <limit>")),
        ("lo <= x <= hi", ss.between("x", "lo", "hi", closed="both")),
        ("lo <= x < hi", ss.between("x", "lo", "hi", closed="low")),
        ("lo < x <= hi", ss.between("x", "lo", "hi", closed="high")),
        ("lo<x<hi", ss.between("x", "lo", "hi", closed="neither")),
        ("hi > x >= lo", ss.between("x", "lo", "hi", closed="low")),
        ("hi >= x > lo", ss.between("x", "lo", "hi", closed="high")),
    ],
)
def test_text_becomes_a_condition(text: str, expected: Condition) -> None:
    assert parse_condition(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "a", "a <", "a = b", "a == b", "a != b", "a << b", "a < b c", "lo <= x > hi", "a < b < c < d", 'a < "b'],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read: write"):
        parse_condition(text)


def test_null_is_open_goes_with_a_range() -> None:
    expected = ss.between("x", "lo", "hi", closed="low", null_is_open=True)
    assert parse_condition("lo <= x < hi", null_is_open=True) == expected
    with pytest.raises(InvalidArgument, match="null_is_open goes with a range"):
        parse_condition("a < b", null_is_open=True)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    """A folder with sales and with prices that hold for a time, the last of each item with an open end."""
    items, periods = range(50), range(4)
    rows = [
        (item, float(item + period), 10 * period, 10 * period + 10 if period < 3 else None)
        for item in items
        for period in periods
    ]
    names = ("item", "price", "valid_from", "valid_to")
    columns = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    pq.write_table(pa.table(columns), tmp_path / "prices.parquet")
    sales = {"sale": list(range(400)), "item": [n % 60 for n in range(400)], "ts": [n * 7 % 55 for n in range(400)]}
    pq.write_table(pa.table(sales), tmp_path / "sales.parquet")
    staged = invoke("stage", tmp_path / "prices.parquet", tmp_path / "table", "--key", "item")
    assert staged.exit_code == 0, staged.output
    return tmp_path


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def join(folder: Path, *options: str) -> Result:
    files = (
        folder / "sales.parquet",
        "--table",
        folder / "table",
        "--out",
        folder / "out.parquet",
        "--order",
        "stream",
    )
    return invoke("join", *files, "--columns", "price", "--memory", "1MB", *options)


@pytest.mark.parametrize(
    ("options", "sql"),
    [
        (
            ["--on", "item", "--condition", "valid_from <= ts < valid_to", "--null-is-open"],
            "USING (item) WHERE valid_from <= ts AND (ts < valid_to OR valid_to IS NULL)",
        ),
        (
            ["--on", "item", "--condition", "valid_from <= ts < valid_to", "--algorithm", "inlj"],
            "USING (item) WHERE valid_from <= ts AND ts < valid_to",
        ),
        (["--condition", "ts < valid_from"], "ON ts < valid_from"),
    ],
)
def test_join_with_a_condition_equals_duckdb(prices: Path, options: list[str], sql: str) -> None:
    result = join(prices, *options)
    assert result.exit_code == 0, result.output
    with duckdb.connect() as connection:
        relations = f"read_parquet('{prices}/sales.parquet') AS s JOIN read_parquet('{prices}/prices.parquet') AS p"
        expected = connection.execute(f"SELECT sale, price FROM {relations} {sql}").fetchall()
    joined = pq.read_table(prices / "out.parquet", columns=["sale", "price"]).to_pylist()
    assert sorted(tuple(row.values()) for row in joined) == sorted(expected)
    assert expected


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ([], "give --on or --condition"),
        (["--on", "item", "--null-is-open"], "give --condition"),
        (["--on", "item", "--condition", "ts ~ valid_from"], "condition='ts ~ valid_from' cannot be read"),
        (["--on", "item", "--condition", "absent < valid_from"], "'absent'"),
        (["--algorithm", "inlj", "--condition", "ts < valid_from"], "inlj"),
    ],
)
def test_bad_conditions_are_one_line(prices: Path, options: list[str], part: str) -> None:
    result = join(prices, *options)
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert part.lower() in result.stderr.lower()
    assert not (prices / "out.parquet").exists()
