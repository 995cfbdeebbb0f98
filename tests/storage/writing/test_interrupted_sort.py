"""What ends the process while DuckDB reads rows ends it as anywhere else."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from semistream.storage.writing import clustering

pytest.importorskip("duckdb")


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt(), SystemExit(143)], ids=lambda error: type(error).__name__)
def test_an_interrupt_in_the_rows_of_a_sort_stays_what_it_is(tmp_path: Path, interrupt: BaseException) -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"a": range(10)})
        raise interrupt

    rows = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), batches())
    with pytest.raises(type(interrupt)) as met:
        list(clustering._sorted(rows, "SELECT a FROM rows ORDER BY a", str(tmp_path), 64 << 20))
    assert met.value is interrupt
