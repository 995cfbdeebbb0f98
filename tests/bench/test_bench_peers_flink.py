"""The benchmark beside Flink: all of it but Flink itself, which needs a JDK, Maven and packages from the network."""

import os
import shutil
import sys
import tarfile
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semistream.bench.framework.measurement import MACHINE, key_of
from semistream.bench.framework.runner import measurements_of
from semistream.bench.framework.spec import load_spec
from semistream.bench.framework.targets import targets_of
from semistream.bench.measurements.peers.flink import look_ups, program, statements
from semistream.bench.measurements.peers.flink.look_ups import FLINK_IDENTITY, FlinkTimes
from semistream.bench.measurements.peers.flink.program import FlinkProgram, FlinkRun, flink_program
from semistream.bench.measurements.peers.flink.raw_rows import matched_rows, product_rows, sale_rows
from semistream.bench.measurements.spark.feed import FileFeed
from semistream.core.errors import InvalidArgument, MissingExtra
from semistream.workloads import Bursts, Sales, master_table

SPEC = load_spec("peers-flink")
ROWS = 3000


def feed_in(folder: Path) -> FileFeed:
    sales = Sales(Bursts(1000), key_domain=ROWS, missing_share=0.3, seed=5)
    return FileFeed(
        folder, lambda first, count: sales.part(first, count).select(["key", "sale", "quantity"]), 1000, 2, 7
    )


# --- what the program writes ------------------------------------------------------------------------------------------


def test_lines_of_the_program_are_read() -> None:
    lines = ["done 0.1", "rows 20 1.5", "rows 10 1.25", "log4j says something", "", "done 2.000", "memory 4096"]
    found = FlinkRun.from_lines(lines)
    assert found == FlinkRun([0.1, 2.0], [(10, 1.25), (20, 1.5)], 4096)
    assert found.rows == 20
    assert FlinkRun.from_lines([]) == FlinkRun()
    assert FlinkRun().rows == 0


def test_every_batch_has_its_part_of_the_time() -> None:
    found = FlinkRun(told=[(0, 1.0), (100, 2.0), (200, 6.0), (400, 7.0)])
    assert found.batch_s(4) == [2.0, 4.0, 0.5, 0.5]
    assert sum(found.batch_s(3)) == pytest.approx(7.0)


def fake_java(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> FlinkProgram:
    folder.mkdir()
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return FlinkProgram(folder, folder)


def run(flink: FlinkProgram, folder: Path) -> FlinkRun:
    return flink.run(["SELECT 1"], cores=2, heap="1g", mode="batch", products=folder, sales=folder)


def test_the_program_gets_its_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flink = fake_java(tmp_path / "bin", monkeypatch, f'printf "%s\\n" "$@" > {tmp_path}/given; echo "rows 3 1.5"')
    assert run(flink, tmp_path).told == [(3, 1.5)]
    given = (tmp_path / "given").read_text().splitlines()
    assert given[:2] == ["-Xmx1g", f"-Djava.io.tmpdir={tmp_path / 'bin'}"]
    assert given[-6:] == ["LookupJoin", "2", "batch", str(tmp_path), str(tmp_path), "SELECT 1"]


def test_a_failure_is_its_innermost_cause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    errors = "Exception in main\\n\\tat a\\nCaused by: job failed\\n\\tat b\\nCaused by: out of memory\\n\\tat c\\n"
    flink = fake_java(tmp_path / "bin", monkeypatch, f"printf '{errors}' >&2; exit 1")
    assert run(flink, tmp_path).failure == "out of memory"
    flink = fake_java(tmp_path / "other", monkeypatch, "exit 3")
    assert run(flink, tmp_path).failure == "it ended without a reason"


# --- what it needs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tool", "remedy"), [("javac", "install a JDK"), ("mvn", "install Maven")])
def test_an_absent_tool_is_named_in_one_line(
    tool: str, remedy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == tool else f"/usr/bin/{name}")
    with ExitStack() as opened, pytest.raises(MissingExtra, match=rf"needs '{tool}'.*PATH: {remedy}") as raised:
        flink_program(context_in(tmp_path, opened))
    assert "\n" not in str(raised.value)


def test_a_download_that_fails_is_told_in_one_line() -> None:
    with pytest.raises(MissingExtra, match=r"not ready, .* failed: an Error of three words") as raised:
        program._call([sys.executable, "-c", "print('first'); print('an Error of three words'); raise SystemExit(1)"])
    assert "\n" not in str(raised.value)


def test_jars_are_taken_from_the_package(tmp_path: Path) -> None:
    for name in ("deps/lib/flink-dist.jar", "deps/bin/tool.jar", "deps/lib/notes.txt"):
        path = tmp_path / "content" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    with tarfile.open(tmp_path / "package.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "content", "flink-2.0")
    jars = tmp_path / "jars"
    jars.mkdir()
    program._extract_jars(tmp_path / "package.tar.gz", jars)
    assert [path.name for path in jars.iterdir()] == ["flink-dist.jar"]
    assert (jars / "flink-dist.jar").read_text() == "deps/lib/flink-dist.jar"


def context_in(folder: Path, opened: ExitStack) -> Any:
    return SimpleNamespace(
        data_dir=folder, report=lambda message: None, resource=lambda name, make: opened.enter_context(make())
    )


# --- rows and statements ----------------------------------------------------------------------------------------------


def test_flink_gets_the_rows_that_spark_gets(tmp_path: Path) -> None:
    feed = feed_in(tmp_path / "stream")
    folder = sale_rows(feed, batches=3, parts=2)
    assert len(list(folder.iterdir())) == 6
    raw = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    rows = np.frombuffer(raw, dtype=[("key", "<i8"), ("sale", "<i8"), ("quantity", "<i4")])
    feed.add_batches(3)
    assert np.array_equal(np.sort(rows["key"]), np.sort(feed.keys()))
    assert rows["sale"].tolist() == list(range(7, 3007))
    assert matched_rows(folder, ROWS, 20) == (feed.keys() < ROWS).sum() < 3000


def test_the_table_is_written_row_by_row(tmp_path: Path) -> None:
    parquet = tmp_path / "parquet"
    parquet.mkdir()
    table = master_table(ROWS, seed=3).read_all()
    # Spark has no binary type of a fixed width.
    plain = table.set_column(4, "payload", table["payload"].cast(pa.binary()))
    pq.write_table(plain.slice(0, 2000), parquet / "0.parquet")
    pq.write_table(plain.slice(2000), parquet / "1.parquet")
    master: Any = SimpleNamespace(folder=tmp_path, parquet=parquet, rows=ROWS, report=lambda message: None)
    folder = product_rows(master)
    raw = b"".join(path.read_bytes() for path in sorted(folder.iterdir()))
    assert len(raw) == 120 * ROWS
    assert np.frombuffer(raw, dtype="<i8").reshape(ROWS, 15)[:, 0].tolist() == table["key"].to_pylist()
    assert raw[-88:] == table["payload"][-1].as_py()


def test_a_quote_in_a_path_does_not_end_the_text() -> None:
    assert "'warehouse' = '/data/o''neil/paimon'" in statements.catalog(Path("/data/o'neil/paimon"))


def test_a_join_says_its_settings() -> None:
    join = statements.look_up_join("full", cache_bytes=1234, page_bytes=8192)
    assert "'lookup.cache' = 'full'" in join
    assert "'lookup.cache-max-memory-size' = '1234 bytes'" in join
    assert "'cache-page-size' = '8192 bytes'" in join
    assert "'bucket' = '4'" in statements.create_table(4)
    assert f"X'{'0' * 2 * 88}'" in statements.IDENTITY


# --- the benchmark ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows_out", "failure"), [(3000, None), (2999, "2,999 rows came out, and not 3,000")])
def test_rows_that_are_lost_are_a_failure(
    rows_out: int, failure: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    flink = SimpleNamespace(run=lambda steps, **given: FlinkRun([3.0], [(rows_out // 3, 1.0), (rows_out, 3.0)], 5))
    tables = SimpleNamespace(data_dir=tmp_path, seed=0, forms=lambda rows, report: None)
    monkeypatch.setattr(look_ups, "flink_program", lambda context: flink)
    monkeypatch.setattr(look_ups, "warm_tables", lambda context, settings: tables)
    (measured,) = (
        each
        for each in measurements_of(SPEC.with_parameters("quick", {"batch_rows": 1000, "skews": [1.0]}), "quick")
        if isinstance(each, FlinkTimes) and each.series == FLINK_IDENTITY
    )
    (point,) = measured.run(SimpleNamespace(report=lambda message: None))  # type: ignore[arg-type]
    assert point.details.get("failure") == failure
    assert point.y == ({MACHINE: 1.0} if failure is None else {})


@pytest.mark.parametrize("scale", ["quick", "full"])
def test_measurements_have_names_and_keys_of_their_own(scale: str) -> None:
    measurements = measurements_of(SPEC, scale)
    assert len({measurement.name for measurement in measurements}) == len(measurements)
    assert len({key_of(measurement) for measurement in measurements}) == len(measurements)


def test_all_of_a_place_read_the_same_new_rows() -> None:
    places: dict[str, set[int]] = {}
    series: dict[str, set[str]] = {}
    for each in measurements_of(SPEC, "full"):
        if hasattr(each, "first_sale"):
            places.setdefault(each.group, set()).add(each.first_sale)  # type: ignore[attr-defined]
            series.setdefault(each.group, set()).add(each.series)  # type: ignore[attr-defined]
    assert sorted(places.values(), key=min) == [{0}, {100_000_000}]
    wanted = {f"Flink, {mode}" for mode in statements.LOOK_UP_MODES}
    assert all(found == {"semistream", "identity on Spark", FLINK_IDENTITY, *wanted} for found in series.values())
    assert {target.over for target in targets_of("peers-flink")} == {"semistream"}


@pytest.mark.parametrize("change", [{"skews": []}, {"skews": [-1.0]}, {"rows": 10}, {"buckets": 0}])
def test_sizes_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="must"):
        measurements_of(SPEC.with_parameters("full", change), "full")
