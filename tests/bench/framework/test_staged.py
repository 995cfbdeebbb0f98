"""Staged tables of workloads: named for the table, shared by workloads that have it in common."""

from pathlib import Path

import pytest

from semistream.bench.framework.store import staged_workload
from semistream.core.errors import ConcurrentWrite
from semistream.storage import MasterTable
from semistream.storage.files.store import LocalStore
from semistream.workloads import repeated, synthetic


def test_workloads_with_the_same_table_share_it(tmp_path: Path) -> None:
    first = staged_workload(tmp_path, repeated(1000, zipf_exponent=0.0), layout="heap", page_bytes=1024)
    other = staged_workload(tmp_path, repeated(1000, zipf_exponent=1.0), layout="heap", page_bytes=1024)
    assert first.table_id == other.table_id
    assert [path.name for path in tmp_path.iterdir()] == ["heap-repeated-1000-rows-seed-0-1024-bytes"]


@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_the_synthetic_table_is_that_of_the_other_benchmarks(tmp_path: Path, layout: str) -> None:
    workload = synthetic(1000, zipf_exponent=1.0, seed=3)
    found = staged_workload(tmp_path, workload, layout=layout, page_bytes=1024)
    again = synthetic(1000, zipf_exponent=0.0, seed=3)
    same = staged_workload(tmp_path, again, layout=layout, page_bytes=1024)
    assert found.table_id == same.table_id
    assert [path.name for path in tmp_path.iterdir()] == [f"{layout}-1000-rows-1024-bytes-seed-3"]


def test_another_layout_page_size_or_workload_is_another_table(tmp_path: Path) -> None:
    workload = repeated(1000, zipf_exponent=0.0)
    tables = [
        staged_workload(tmp_path, workload, layout="heap", page_bytes=1024),
        staged_workload(tmp_path, workload, layout="heap", page_bytes=2048),
        staged_workload(tmp_path, workload, layout="clustered", page_bytes=1024),
        staged_workload(tmp_path, repeated(1000, zipf_exponent=0.0, seed=1), layout="heap", page_bytes=1024),
    ]
    assert len({table.table_id for table in tables}) == 4


def test_a_table_that_another_run_stages_is_left_to_it(tmp_path: Path) -> None:
    def staged() -> MasterTable:
        return staged_workload(tmp_path, synthetic(1000, zipf_exponent=0.0), layout="heap", page_bytes=1024)

    table = staged()
    for manifest in (Path(table.path) / "versions").iterdir():
        manifest.unlink()
    files = sorted(Path(table.path).rglob("*"))
    with LocalStore(table.path).writing(), pytest.raises(ConcurrentWrite, match="another writer"):
        staged()
    assert sorted(Path(table.path).rglob("*")) == files
    assert staged().num_rows == 1000


def test_a_table_is_staged_once_and_a_half_staged_one_again(tmp_path: Path) -> None:
    def staged() -> MasterTable:
        return staged_workload(tmp_path, synthetic(1000, zipf_exponent=0.0), layout="heap", page_bytes=1024)

    table = staged()
    assert staged().table_id == table.table_id
    for manifest in (Path(table.path) / "versions").iterdir():
        manifest.unlink()
    assert staged().num_rows == 1000
