"""Every generated workload goes through staging and a join, and the join finds what counting keys finds."""

from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.workloads import Workload, locality, repeated, skewed_master, synthetic, weather

WORKLOADS = [
    synthetic(5000, zipf_exponent=1.0),
    repeated(5000, zipf_exponent=1.0),
    skewed_master(5000, master_exponent=0.5, zipf_exponent=0.5),
    locality(5000, rows_per_key=10),
    weather(5000),
    weather(5000, row_bytes=32),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.table_name)
def test_a_workload_is_staged_and_joined(workload: Workload, tmp_path: Path) -> None:
    table = ss.stage(workload.master(), tmp_path / workload.table_name, key=workload.key)
    assert table.num_rows == workload.num_rows
    operator = ss.operator("meshjoin", table, workload.stream_schema, on=workload.key, memory="4MB")
    batch = next(islice(workload.stream(2), 1, None)).slice(0, 2000)
    joined = sum(part.num_rows for part in ss.run(operator, [batch]))
    rows_of_key = np.bincount(workload.master().read_all()[workload.key].to_numpy(), minlength=40_000)
    assert joined == rows_of_key[batch[workload.key].to_numpy()].sum() > 0


def test_names_of_tables_are_unlike_and_fit_for_folders() -> None:
    by_name: dict[str, pa.Table] = {}
    for workload in WORKLOADS:
        rows = workload.master().read_all()
        assert by_name.setdefault(workload.table_name, rows).equals(rows)
        assert set(workload.table_name) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-")
    assert len(by_name) == len(WORKLOADS)
