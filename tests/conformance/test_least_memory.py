"""What an error names as the least memory is enough, whatever the table is like."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import BudgetTooSmall
from semistream.operators.registry import algorithm


@pytest.mark.parametrize("name", ss.algorithm_names())
@pytest.mark.parametrize(("rows", "page_bytes", "width"), [(2000, 512, 5), (20_000, 4096, 50), (300, 65_536, 5000)])
@pytest.mark.parametrize("layout", ["heap", "clustered"])
def test_the_least_memory_that_is_named_does(
    name: str, rows: int, page_bytes: int, width: int, layout: str, tmp_path: Path
) -> None:
    if layout not in algorithm(name).layouts:
        pytest.skip(f"{name} is not for a {layout}")
    content = pa.table({"k": np.arange(rows), "c": ["x" * width + str(n) for n in range(rows)]})
    table = ss.stage(content, tmp_path / "master", key="k", layout=layout, page_bytes=page_bytes)
    schema = pa.schema([("n", pa.int64()), ("k", pa.int64())])
    with pytest.raises(BudgetTooSmall, match=r"memory=1000 bytes is too small .*: give at least \d+ bytes") as caught:
        ss.operator(name, table, schema, on="k", how="left", memory=1000)
    least = caught.value.least_bytes
    assert least is not None
    orders = pa.RecordBatch.from_arrays([pa.array(range(50)), pa.array(range(50))], schema=schema)
    op = ss.operator(name, table, schema, on="k", how="left", memory=least)
    assert sum(batch.num_rows for batch in ss.run(op, [orders])) == 50
