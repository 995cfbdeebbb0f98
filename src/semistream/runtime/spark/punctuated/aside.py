"""Tuples that contradict a punctuation, set aside in Parquet files.

A file is named by query, join, micro-batch and bucket, so a replayed batch writes the same files again. A file under
its name is whole.
"""

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from semistream.stream_joins.parts.join_key import LEFT, Side

__all__ = ["AsideFiles"]


class AsideFiles:
    """The files of one bucket in one micro-batch, in a folder for each stream; made with the first tuple."""

    def __init__(self, folder: str, name: str) -> None:
        self._folder = Path(folder)
        self._name = name
        self._writers: dict[Side, tuple[Any, Path]] = {}
        self._open = ExitStack()

    def put(self, side: Side, rows: pa.RecordBatch) -> None:
        """Add tuples of a stream."""
        if side not in self._writers:
            folder = self._folder / ("left" if side == LEFT else "right")
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f".{self._name}.{os.getpid()}"  # Spark and others ignore files with a dot
            self._writers[side] = self._open.enter_context(pq.ParquetWriter(unfinished, rows.schema)), unfinished
        self._writers[side][0].write_batch(rows)

    def publish(self) -> None:
        """Give the files their names."""
        self._open.close()
        for _, unfinished in self._writers.values():
            unfinished.replace(unfinished.parent / f"{self._name}.parquet")
        self._writers = {}

    def close(self) -> None:
        """Remove unpublished files."""
        self._open.close()
        for _, unfinished in self._writers.values():
            unfinished.unlink(missing_ok=True)
