"""The commands: help, results, exit codes and error lines."""

import errno
import json
import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from semistream import __version__, open_table
from semistream.cli.app import app

COMMANDS = ["demo", "stage", "join", "doctor", "bench", "bench micro", "bench plot"]


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def assert_one_error_line(result: Result, *parts: str) -> None:
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("semistream: ")
    for part in parts:
        assert part in lines[0]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A folder with customers and orders as Parquet; some orders have no customer, some no key."""
    rng = np.random.default_rng(5)
    customers = pa.table(
        {"custkey": np.arange(3000), "name": [f"name {n}" for n in range(3000)], "rank": np.arange(3000) % 7}
    )
    pq.write_table(customers, tmp_path / "customers.parquet")
    keys = pa.array(rng.integers(0, 4000, 5000), mask=rng.random(5000) < 0.02)
    orders = pa.table({"order": np.arange(5000), "buyer": keys, "amount": rng.random(5000)})
    pq.write_table(orders.slice(0, 2000), tmp_path / "orders-1.parquet")
    pq.write_table(orders.slice(2000), tmp_path / "orders-2.parquet")
    return tmp_path


def stage(files: Path, *options: object) -> Path:
    result = invoke("stage", files / "customers.parquet", files / "table", "--key", "custkey", *options)
    assert result.exit_code == 0, result.output
    return files / "table"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(command: str) -> None:
    result = invoke(*command.split(), "--help")
    assert result.exit_code == 0
    assert f"Example:\n    semistream {command}" in result.stdout


def test_version() -> None:
    assert invoke("--version").stdout.split() == ["semistream", __version__]


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_stage_tells_what_it_made(files: Path, layout: str) -> None:
    result = invoke(
        "stage",
        files / "customers.parquet",
        files / "t",
        "--key",
        "custkey",
        "--layout",
        layout,
        "--buckets",
        3,
        "--json",
    )
    content = json.loads(result.stdout)
    assert (content["num_rows"], content["layout"], content["buckets"]) == (3000, layout, 3)
    text = invoke("stage", files / "customers.parquet", files / "u", "--key", "custkey,rank", "--page-bytes", "4KB")
    assert "3,000 rows" in text.stdout


@pytest.mark.parametrize("algorithm", ["meshjoin", "inlj"])
@pytest.mark.parametrize(
    ("how", "sql"),
    [
        ("inner", "SELECT o.*, name, rank FROM o JOIN c ON buyer = custkey"),
        ("left", "SELECT o.*, name, rank FROM o LEFT JOIN c ON buyer = custkey"),
        ("semi", "SELECT o.* FROM o SEMI JOIN c ON buyer = custkey"),
        ("anti", "SELECT o.* FROM o ANTI JOIN c ON buyer = custkey"),
    ],
)
def test_join_equals_duckdb(files: Path, algorithm: str, how: str, sql: str) -> None:
    table, out = stage(files, "--page-bytes", "8KB"), files / "out.parquet"
    orders = [files / "orders-1.parquet", files / "orders-2.parquet"]
    options = ["--how", how, "--algorithm", algorithm, "--columns", "name,rank", "--order", "stream", "--memory", "2MB"]
    result = invoke("join", *orders, "--table", table, "--on", "buyer=custkey", "--out", out, "--json", *options)
    assert result.exit_code == 0, result.output
    with duckdb.connect() as connection:
        connection.execute(f"CREATE VIEW o AS FROM read_parquet('{files}/orders-*.parquet')")
        connection.execute(f"CREATE VIEW c AS FROM read_parquet('{files}/customers.parquet')")
        expected = connection.execute(f'{sql} ORDER BY "order"').fetchall()
    joined = [tuple(row.values()) for row in pq.read_table(out).to_pylist()]
    assert joined == expected
    content = json.loads(result.stdout)
    assert content["metrics"]["tuples_answered"] == 5000
    assert content["metrics"]["rows_out"] == len(expected)
    assert sum(content["memory"]["components"].values()) <= content["memory"]["budget_bytes"] == 2 << 20


def test_join_prints_metrics_and_memory(files: Path) -> None:
    table = stage(files)
    result = invoke("join", files / "orders-1.parquet", "--table", table, "--on", "buyer=custkey", "--out", files / "o")
    assert "2,000 tuples answered" in result.stdout
    assert "stream buffer" in result.stdout


def test_existing_output_is_kept_unless_told_otherwise(files: Path) -> None:
    table, out = stage(files), files / "out.parquet"
    out.write_text("precious")
    arguments = ("join", files / "orders-1.parquet", "--table", table, "--on", "buyer=custkey", "--out", out)
    assert_one_error_line(invoke(*arguments), "out.parquet", "--overwrite")
    assert out.read_text() == "precious"
    assert invoke(*arguments, "--overwrite").exit_code == 0
    assert pq.read_table(out).num_rows > 0


def test_a_failed_join_leaves_no_output(files: Path) -> None:
    table = stage(files, "--layout", "heap", "--page-bytes", "4KB")
    data = max((table / "data").iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 1
    data.write_bytes(content)
    before = sorted(files.iterdir())
    result = invoke(
        "join", files / "orders-1.parquet", "--table", table, "--on", "buyer=custkey", "--out", files / "out.parquet"
    )
    assert_one_error_line(result, data.name, "altered")
    assert sorted(files.iterdir()) == before


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--on", "nonsense"], ["'nonsense'"]),
        (["--on", "buyer=custkey,"], ["--on".removeprefix("--"), "not a key"]),
        (["--on", "buyer=custkey", "--how", "outer"], ["how='outer'"]),
        (["--on", "buyer=custkey", "--algorithm", "magic"], ["'magic'", "meshjoin"]),
        (["--on", "buyer=custkey", "--memory", "1KB"], ["memory=1024", "at least"]),
        (["--on", "buyer=custkey", "--memory", "much"], ["memory='much'"]),
        (["--on", "buyer=custkey", "--columns", "absent"], ["'absent'"]),
        (["--on", "buyer=custkey", "--order", "backwards"], ["order='backwards'"]),
        (["--on", "amount=name"], ["amount"]),
    ],
)
def test_bad_join_arguments_are_one_line(files: Path, options: list[str], parts: list[str]) -> None:
    table, out = stage(files), files / "out.parquet"
    result = invoke("join", files / "orders-1.parquet", "--table", table, "--out", out, *options)
    assert_one_error_line(result, *parts)
    assert not out.exists()


def test_bad_files_are_one_line(files: Path) -> None:
    table, out = stage(files), files / "out.parquet"
    (files / "text.parquet").write_text("no Parquet")
    rest = ("--table", table, "--on", "buyer=custkey", "--out", out)
    assert_one_error_line(invoke("join", files / "absent.parquet", *rest), "absent.parquet")
    assert_one_error_line(invoke("join", files / "text.parquet", *rest), "text.parquet", "Parquet")
    both = (files / "orders-1.parquet", files / "customers.parquet")
    assert_one_error_line(invoke("join", *both, *rest), "customers.parquet", "other columns")
    no_table = ("--table", files / "absent", *rest[2:])
    assert_one_error_line(invoke("join", files / "orders-1.parquet", *no_table), "absent")
    (files / "empty").mkdir()
    assert_one_error_line(invoke("join", files / "empty", *rest), "empty", "no Parquet files")


def test_outputs_that_cannot_be_written_are_one_line(files: Path) -> None:
    table = stage(files)
    arguments = ("join", files / "orders-1.parquet", "--table", table, "--on", "buyer=custkey", "--out")
    no_folder = invoke(*arguments, files / "absent" / "out.parquet")
    assert_one_error_line(no_folder, "out.parquet", f"create the folder '{files / 'absent'}'")
    assert ".tmp" not in no_folder.stderr
    assert_one_error_line(invoke(*arguments, files / "out.csv"), "Parquet only", "name it 'out.parquet'")
    assert_one_error_line(invoke(*arguments, files), "is a folder")
    assert not (files / "out.csv").exists()


def test_the_temporary_name_of_an_output_is_not_told(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise PermissionError(errno.EACCES, f"cannot open {path}")

    table, out = stage(files), files / "out.parquet"
    monkeypatch.setattr(pq, "ParquetWriter", refuse)
    result = invoke("join", files / "orders-1.parquet", "--table", table, "--on", "buyer=custkey", "--out", out)
    assert_one_error_line(result, "cannot write", "out.parquet", "Permission denied")
    assert ".tmp" not in result.stderr


def test_a_folder_is_a_stream_of_its_files(files: Path) -> None:
    table, folder = stage(files), files / "orders"
    for year in (1, 2):
        (folder / f"year={year}").mkdir(parents=True)
        (files / f"orders-{year}.parquet").rename(folder / f"year={year}" / "orders.parquet")
    out = files / "out.parquet"
    result = invoke("join", folder, "--table", table, "--on", "buyer=custkey", "--how", "left", "--out", out)
    assert result.exit_code == 0, result.output
    joined = pq.read_table(out, columns=["order", "year"]).sort_by("order")
    assert joined["order"].to_pylist() == list(range(5000))
    assert joined["year"].to_pylist() == [1] * 2000 + [2] * 3000  # from the folders' names, as stage reads them
    (folder / "notes.txt").write_text("not Parquet")
    result = invoke("join", folder, "--table", table, "--on", "buyer=custkey", "--out", files / "new.parquet")
    assert_one_error_line(result, "cannot be read as Parquet", "notes.txt")
    assert not (files / "new.parquet").exists()


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--key", "absent"], "'absent'"),
        (["--key", "custkey", "--layout", "pile"], "layout='pile'"),
        (["--key", "custkey", "--page-bytes", "0"], "page_bytes='0'"),
        (["--key", "custkey", "--page-bytes=-5"], "page_bytes='-5'"),
        (["--key", "custkey", "--buckets", "0"], "buckets=0"),
    ],
)
def test_bad_stage_arguments_are_one_line(files: Path, options: list[str], part: str) -> None:
    assert_one_error_line(invoke("stage", files / "customers.parquet", files / "t", *options), part)


def test_staging_refuses_absent_data_and_taken_paths(files: Path) -> None:
    absent = invoke("stage", files / "absent.parquet", files / "t", "--key", "custkey")
    assert_one_error_line(absent, "absent.parquet", "does not exist")
    stage(files)
    again = invoke("stage", files / "customers.parquet", files / "table", "--key", "custkey")
    assert_one_error_line(again, "table", "--replace", "--append")
    foreign = invoke("stage", files / "customers.parquet", files, "--key", "custkey")
    assert_one_error_line(foreign, "not empty", "holds no table")
    on_a_file = invoke("stage", files / "customers.parquet", files / "orders-1.parquet", "--key", "custkey")
    assert_one_error_line(on_a_file, "orders-1.parquet' is a file")
    below_a_file = invoke("stage", files / "customers.parquet", files / "orders-1.parquet" / "t", "--key", "custkey")
    assert_one_error_line(below_a_file, "orders-1.parquet' is a file")


@pytest.mark.parametrize(("option", "rows"), [("--append", 6000), ("--replace", 3000)])
def test_staging_onto_a_table_writes_a_new_version(files: Path, option: str, rows: int) -> None:
    table = stage(files, "--page-bytes", "8KB", "--buckets", 2)
    plain = invoke("stage", files / "customers.parquet", table, option, "--json")
    assert plain.exit_code == 0, plain.output
    content = json.loads(plain.stdout)
    assert (content["version"], content["num_rows"], content["buckets"]) == (2, rows, 2)
    same = ("--key", "custkey", "--layout", "clustered", "--buckets", 2, "--page-bytes", 8192)
    assert invoke("stage", files / "customers.parquet", table, option, *same).exit_code == 0


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--append", "--replace"], ["exclude each other"]),
        (["--append", "--key", "name"], ["key=('name',) contradicts", "('custkey',)"]),
        (["--append", "--layout", "heap"], ["layout='heap' contradicts", "'clustered'"]),
        (["--replace", "--buckets", "7"], ["buckets=7 contradicts"]),
        (["--replace", "--page-bytes", "1MB"], ["page_bytes=1048576 contradicts", "65536"]),
    ],
)
def test_options_that_contradict_the_table_are_one_line(files: Path, options: list[str], parts: list[str]) -> None:
    table = stage(files)
    assert_one_error_line(invoke("stage", files / "customers.parquet", table, *options), *parts)
    assert open_table(table).version == 1


def test_staging_needs_a_key_or_a_table(files: Path) -> None:
    assert_one_error_line(invoke("stage", files / "customers.parquet", files / "t"), "--key")
    assert_one_error_line(invoke("stage", files / "customers.parquet", files / "t", "--append"), "no master table")
    assert not (files / "t").exists()


def test_usage_errors_end_with_2(files: Path) -> None:
    assert invoke("stage", files / "customers.parquet", files / "t", "--nonsense").exit_code == 2


def test_a_full_disk_is_one_line(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("semistream.storage.files.store._SyncedFile.write", full)
    result = invoke("stage", files / "customers.parquet", files / "t2", "--key", "custkey")
    assert_one_error_line(result, "No space left on device", "give another folder")
    assert not list((files / "t2" / "data").iterdir())


def test_unexpected_errors_keep_their_traceback(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("semistream.cli.stage.stage_table", broken)
    result = invoke("stage", files / "customers.parquet", files / "t", "--key", "custkey")
    assert isinstance(result.exception, ZeroDivisionError)


def test_join_replaces_regular_files_only_and_follows_links(files: Path) -> None:
    arguments = ["join", files / "orders-1.parquet", "--table", stage(files), "--on", "buyer=custkey", "--overwrite"]
    os.mkfifo(files / "pipe.parquet")
    assert_one_error_line(invoke(*arguments, "--out", files / "pipe.parquet"), "not a regular file")
    target, link = files / "target.parquet", files / "link.parquet"
    target.write_text("old")
    link.symlink_to(target)
    result = invoke(*arguments, "--out", link)
    assert result.exit_code == 0, result.stderr
    assert link.is_symlink()
    assert pq.read_table(target).num_rows > 0


def test_names_that_are_not_utf_8_are_refused_in_one_line(files: Path) -> None:
    odd = os.fsdecode(b"caf\xe9.parquet")
    os.link(files / "customers.parquet", files / odd)
    assert_one_error_line(
        invoke("stage", files / odd, files / "t", "--key", "custkey"), "data=", "is not UTF-8: rename"
    )
    table = stage(files)
    on = ("--table", table, "--on", "buyer=custkey", "--out")
    assert_one_error_line(invoke("join", files / "orders-1.parquet", *on, files / odd), "out=", "is not UTF-8: rename")
    assert_one_error_line(invoke("join", files / odd, *on, files / "o.parquet"), "data=", "is not UTF-8: rename")
