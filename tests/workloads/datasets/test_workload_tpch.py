"""TPC-H's customers and orders."""

import itertools
import os
import shutil
import sysconfig
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import semistream as ss
from semistream.core.errors import InvalidArgument, MissingData, MissingExtra
from semistream.workloads import tpch

SCALE = 0.01

GENERATOR = shutil.which("tpchgen-cli") or shutil.which("tpchgen-cli", path=sysconfig.get_path("scripts"))
needs_generator = pytest.mark.skipif(GENERATOR is None, reason="tpchgen-cli is not installed: pip install tpchgen-cli")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tpch")


@needs_generator
def test_sizes_are_those_stated(folder: Path) -> None:
    workload = tpch(SCALE, folder)
    customers = workload.master().read_all()
    assert customers.num_rows == workload.num_rows == 1500
    assert customers.nbytes / customers.num_rows == pytest.approx(223, rel=0.01)
    assert customers.schema.equals(workload.master_schema)
    assert np.array_equal(np.sort(customers["custkey"].to_numpy()), np.arange(1, 1501))
    orders = pa.Table.from_batches(itertools.islice(workload.stream(0), 2))
    assert orders.nbytes / orders.num_rows == pytest.approx(138, rel=0.01)
    assert orders.schema.equals(workload.stream_schema)


@needs_generator
def test_orders_are_uniform_over_two_thirds_of_the_customers_and_begin_anew(folder: Path) -> None:
    workload = tpch(SCALE, folder)
    table = pa.Table.from_batches(itertools.islice(workload.stream(0), 4))
    first_pass = table.slice(0, 15_000)
    assert table.slice(15_000, 1000).equals(table.slice(0, 1000))
    counts = np.bincount(first_pass["custkey"].to_numpy(), minlength=1501)[1:]
    assert np.mean(counts > 0) == pytest.approx(2 / 3, abs=0.001)
    assert counts[2::3].sum() == 0
    # A skewed stream would have far more at its most frequent key than the Poisson distribution gives.
    assert counts.max() < 15 + 6 * np.sqrt(15)


@needs_generator
def test_rows_are_generated_once(folder: Path) -> None:
    first = tpch(SCALE, folder)
    written = (folder / "tpch-sf-0.01" / "orders.parquet").stat().st_mtime_ns
    again = tpch(SCALE, folder)
    assert (folder / "tpch-sf-0.01" / "orders.parquet").stat().st_mtime_ns == written
    assert again.table_name == first.table_name
    assert again.master().read_all().equals(first.master().read_all())
    assert [path.name for path in folder.iterdir()] == ["tpch-sf-0.01"]


@needs_generator
def test_text_is_joined(folder: Path, tmp_path: Path) -> None:
    workload = tpch(SCALE, folder)
    table = ss.stage(workload.master(), tmp_path / "customers", key=workload.key)
    operator = ss.operator("meshjoin", table, workload.stream_schema, on=workload.key, memory="2MB")
    joined = pa.Table.from_batches(ss.run(operator, [next(workload.stream(0)).slice(0, 2000)]))
    assert joined.num_rows == 2000
    names = joined["c_name"].to_pylist()
    assert names == [f"Customer#{number:09d}" for number in joined["custkey"].to_pylist()]


def test_without_the_generator_the_message_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))
    with pytest.raises(MissingExtra, match=r"tpchgen-cli.*pip install 'semistream\[bench\]'"):
        tpch(SCALE, tmp_path)


def test_a_generator_that_fails_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "bin" / "tpchgen-cli"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho no space left >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(InvalidArgument, match=r"scale_factor=0\.01.*no space left"):
        tpch(SCALE, tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []


def test_a_folder_without_its_file_is_named_with_the_remedy(tmp_path: Path) -> None:
    kept = tmp_path / "tpch-sf-0.01"
    kept.mkdir()
    with pytest.raises(MissingData, match=r"customer\.parquet: remove the folder"):
        tpch(SCALE, tmp_path)


def test_views_of_text_become_text_and_comments_are_padded(tmp_path: Path) -> None:
    kept = tmp_path / "tpch-sf-0.01"
    kept.mkdir()
    comments = pa.array(["short", "x" * 110]).cast(pa.string_view())
    keys = pa.array([1, 2])
    pq.write_table(pa.table({"c_custkey": keys, "c_comment": comments}), kept / "customer.parquet")
    pq.write_table(pa.table({"o_custkey": keys, "o_comment": comments}), kept / "orders.parquet")
    workload = tpch(SCALE, tmp_path)
    assert workload.master_schema.equals(pa.schema([("custkey", pa.int64()), ("c_comment", pa.string())]))
    lengths = [len(comment) for comment in workload.master().read_all()["c_comment"].to_pylist()]
    assert lengths == [102, 110]
    assert next(workload.stream(0))["o_comment"].to_pylist() == ["short" + " " * 46, "x" * 110]


def test_arguments_are_checked(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="scale_factor=0"):
        tpch(0, tmp_path)
