"""Master tables that benchmarks read: staged once into a folder, and used again when they fit."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal, cast

from semistream.core.errors import SemistreamError, TableExists
from semistream.storage import MasterTable, open_table, stage
from semistream.workloads import Workload

__all__ = ["staged_workload"]

_PERMUTED = re.compile(r"permuted-(\d+-rows)-(seed-\d+)")


def staged_workload(
    data_dir: Path,
    workload: Workload,
    *,
    layout: str,
    page_bytes: int,
    progress: Callable[[int], None] | None = None,
) -> MasterTable:
    """Return the master table of ``workload`` inside ``data_dir``; ``progress`` is told the rows staged so far."""
    path = data_dir / _folder(workload, layout, page_bytes)

    def staged() -> MasterTable:
        return stage(
            workload.master(),
            path,
            key=workload.key,
            layout=cast(Literal["heap", "clustered"], layout),
            page_bytes=page_bytes,
            progress=progress,
        )

    if path.exists():
        try:
            table = open_table(path)
        except SemistreamError:
            try:
                return staged()  # staging was interrupted; what another run stages just now is left to it
            except TableExists:
                shutil.rmtree(path)
        else:
            is_like_it = (table.num_rows, table.page_bytes, table.layout) == (workload.num_rows, page_bytes, layout)
            if is_like_it and table.schema.equals(workload.master_schema):
                return table
            shutil.rmtree(path)
    data_dir.mkdir(parents=True, exist_ok=True)
    return staged()


def _folder(workload: Workload, layout: str, page_bytes: int) -> str:
    permuted = _PERMUTED.fullmatch(workload.table_name)
    if permuted is not None:  # the name that these tables have had from the beginning
        return f"{layout}-{permuted[1]}-{page_bytes}-bytes-{permuted[2]}"
    return f"{layout}-{workload.table_name}-{page_bytes}-bytes"
