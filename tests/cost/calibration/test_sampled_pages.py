"""Pages from all over a table: all of a small one, whatever its files; about so many bytes of a large one."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import EmptyTable
from semistream.cost.calibration.sampled_pages import rows_from_all_over, sampled_runs
from semistream.storage import MasterTable, stage


def _table(path: Path, buckets: int) -> MasterTable:
    content = pa.table({"id": np.arange(20_000), "text": ["x" * 50] * 20_000})
    return stage(content, path, key="id", buckets=buckets, page_bytes=4096)


@pytest.mark.parametrize("buckets", [1, 64])
def test_a_small_table_is_read_whole(tmp_path: Path, buckets: int) -> None:
    table = _table(tmp_path / "table", buckets)
    rows = rows_from_all_over(table, table.num_bytes, np.random.default_rng(0), ["id"])
    assert sorted(rows["id"].to_pylist()) == list(range(20_000))


@pytest.mark.parametrize("buckets", [1, 16])
def test_of_a_large_table_no_more_is_read_than_asked_for(tmp_path: Path, buckets: int) -> None:
    table = _table(tmp_path / "table", buckets)
    rows = rows_from_all_over(table, table.num_bytes // 5, np.random.default_rng(0), ["id"])
    assert 0.1 < rows.num_rows / table.num_rows <= 0.25
    assert len(set(rows["id"].to_pylist())) == rows.num_rows
    few = rows_from_all_over(table, 3 * 4096, np.random.default_rng(0), ["id"])
    assert few.num_rows <= 4 * 4096 // 58


def test_an_empty_table_has_no_pages(tmp_path: Path) -> None:
    buckets = stage(pa.table({"id": [1]}), tmp_path / "table", key="id", buckets=2)
    empty = next(buckets.bucket(bucket) for bucket in range(2) if buckets.bucket(bucket).num_pages == 0)
    with pytest.raises(EmptyTable, match="has no rows"):
        sampled_runs(empty, 1000, np.random.default_rng(0), 4)
