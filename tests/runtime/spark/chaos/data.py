"""The stream and the table of a run, and the independent batch join of them."""

import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.runtime.spark.chaos.config import RunConfig

__all__ = ["STREAM_COLUMNS", "Feed", "expected_rows", "master_rows"]

STREAM_COLUMNS = "id bigint, number bigint, note string"
_STREAM_SCHEMA = pa.schema([("id", pa.int64()), ("number", pa.int64()), ("note", pa.string())])


def master_rows(config: RunConfig, version: int = 1) -> pa.Table:
    """Return the table: key k has k % 3 rows, the version is in every row, and one key is NULL."""
    ids: list[int | None] = [key for key in range(config.master_rows // 2) for _ in range(key % 3)]
    labels = [f"v{version}-{at}" for at in range(len(ids))]
    return pa.table({"id": pa.array([*ids, None], pa.int64()), "label": [*labels, f"v{version}-null"]})


class Feed:
    """Writes files of stream rows, each whole or not at all."""

    def __init__(self, folder: Path, config: RunConfig) -> None:
        self.folder = folder
        folder.mkdir()
        self._random = random.Random(config.seed)
        self._config = config
        self._number = 0

    def _key(self) -> int | None:
        kind = self._random.random()
        if kind < 0.02:
            return None
        domain = self._config.master_rows // 2
        if kind < 0.5:
            return self._random.randrange(20)  # hot
        return self._random.randrange(domain + domain // 10)  # some have no row

    def add(self, files: int = 1) -> None:
        """Write so many files."""
        for _ in range(files):
            count = self._config.rows_per_file
            numbers = range(self._number, self._number + count)
            table = pa.table(
                [
                    [self._key() for _ in numbers],
                    list(numbers),
                    [f"n{number % 7}" * (number % 4) for number in numbers],
                ],
                schema=_STREAM_SCHEMA,
            )
            unfinished = self.folder / f".{self._number:09d}.tmp"
            pq.write_table(table, unfinished)
            os.rename(unfinished, self.folder / f"{self._number:09d}.parquet")
            self._number += count


def expected_rows(folder: Path, master: pa.Table, how: str) -> "Counter[tuple[Any, ...]]":
    """Return the rows of the join of all stream files with the table, by DuckDB."""
    connection = duckdb.connect()
    connection.register("master", master)
    stream = f"read_parquet('{folder}/*.parquet')"
    if how in ("semi", "anti"):
        query = f"SELECT s.id, s.number, s.note FROM {stream} s {how} JOIN master m ON s.id = m.id"
    else:
        query = f"SELECT s.id, s.number, s.note, m.label FROM {stream} s {how} JOIN master m ON s.id = m.id"
    return Counter(connection.execute(query).fetchall())
