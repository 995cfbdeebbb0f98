"""The master table that the micro-benchmark reads: staged once into a folder, and used again when it fits."""

import shutil
from collections.abc import Callable
from pathlib import Path

from semistream.bench.micro.spec import MicroSpec
from semistream.core.errors import SemistreamError
from semistream.storage import MasterTable, open_table, stage
from semistream.workloads import MASTER_SCHEMA, master_table

__all__ = ["staged_table"]


def staged_table(spec: MicroSpec, data_dir: Path, progress: Callable[[int], None] | None = None) -> MasterTable:
    """Return the heap table of ``spec`` inside ``data_dir``; ``progress`` is told the rows staged so far."""
    path = data_dir / f"micro-{spec.rows}-rows-{spec.page_bytes}-bytes-seed-{spec.seed}"
    if path.exists():
        try:
            table = open_table(path)
        except SemistreamError:
            shutil.rmtree(path)  # staging was interrupted
        else:
            if _fits(table, spec):
                return table
            shutil.rmtree(path)
    data_dir.mkdir(parents=True, exist_ok=True)
    return stage(
        master_table(spec.rows, seed=spec.seed),
        path,
        key="key",
        layout="heap",
        page_bytes=spec.page_bytes,
        progress=progress,
    )


def _fits(table: MasterTable, spec: MicroSpec) -> bool:
    return table.schema.equals(MASTER_SCHEMA) and (table.num_rows, table.page_bytes, table.layout) == (
        spec.rows,
        spec.page_bytes,
        "heap",
    )
