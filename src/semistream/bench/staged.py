"""Master tables that benchmarks read: staged once into a folder, and used again when they fit."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from semistream.core.errors import SemistreamError
from semistream.storage import MasterTable, open_table, stage
from semistream.workloads import MASTER_SCHEMA, master_table

__all__ = ["staged_table"]


def staged_table(
    data_dir: Path,
    *,
    rows: int,
    layout: Literal["heap", "clustered"],
    page_bytes: int,
    seed: int,
    progress: Callable[[int], None] | None = None,
) -> MasterTable:
    """Return a table of ``rows`` generated rows inside ``data_dir``; ``progress`` is told the rows staged so far."""
    path = data_dir / f"{layout}-{rows}-rows-{page_bytes}-bytes-seed-{seed}"
    if path.exists():
        try:
            table = open_table(path)
        except SemistreamError:
            shutil.rmtree(path)  # staging was interrupted
        else:
            is_like_it = (table.num_rows, table.page_bytes, table.layout) == (rows, page_bytes, layout)
            if is_like_it and table.schema.equals(MASTER_SCHEMA):
                return table
            shutil.rmtree(path)
    data_dir.mkdir(parents=True, exist_ok=True)
    source = master_table(rows, seed=seed)
    return stage(source, path, key="key", layout=layout, page_bytes=page_bytes, progress=progress)
