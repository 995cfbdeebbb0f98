"""The master table that the micro-benchmark reads."""

from collections.abc import Callable
from pathlib import Path

from semistream.bench import staged
from semistream.bench.micro.spec import MicroSpec
from semistream.storage import MasterTable

__all__ = ["staged_table"]


def staged_table(spec: MicroSpec, data_dir: Path, progress: Callable[[int], None] | None = None) -> MasterTable:
    """Return the heap table of ``spec`` inside ``data_dir``; ``progress`` is told the rows staged so far."""
    return staged.staged_table(
        data_dir, rows=spec.rows, layout="heap", page_bytes=spec.page_bytes, seed=spec.seed, progress=progress
    )
