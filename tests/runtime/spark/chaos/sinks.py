"""Where runs write to, and the rows that are there, by micro-batch."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
from pyspark.sql import DataFrame

__all__ = ["FAILURE", "BatchSink", "rows_of_batches"]

FAILURE = "the sink fails"
_FAILURE_SHARE = 0.08


class BatchSink:
    """A file for each micro-batch, whole or not at all. It fails at random, before, amid and after its work.

    A replayed batch is held against the file that is there.
    """

    def __init__(self, folder: Path, seed: str) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        folder.mkdir(exist_ok=True)

    def __call__(self, rows: DataFrame, batch: int) -> None:
        fails = self._random.choice(["before", "amid", "after"]) if self._random.random() < _FAILURE_SHARE else ""
        if fails == "before":
            raise RuntimeError(FAILURE)
        collected = [list(row) for row in rows.collect()]  # a replayed batch too: its state is committed by reading it
        if fails == "amid":
            raise RuntimeError(FAILURE)
        path = self._folder / f"{batch}.json"
        if path.exists():
            before, now = (Counter(map(tuple, some)) for some in (json.loads(path.read_text()), collected))
            assert before == now, f"REPLAYED batch {batch}: {before - now} are gone, {now - before} are new"
        else:
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(collected))
            unfinished.rename(path)
        if fails == "after":
            raise RuntimeError(FAILURE)


def rows_of_batches(folder: Path) -> dict[int, list[tuple[Any, ...]]]:
    """Return what a run has written."""
    log = folder / "_spark_metadata"
    if not log.exists():
        return {int(path.stem): [tuple(row) for row in json.loads(path.read_text())] for path in folder.glob("*.json")}
    return {number: _rows(files) for number, files in _committed_files(log).items()}


def _committed_files(log: Path) -> dict[int, list[str]]:
    """Return the files that the log of Spark's file sink names; a compacted entry repeats those before it."""
    entries = [path for path in log.iterdir() if path.name.split(".")[0].isdigit()]
    seen: set[str] = set()
    batches = {}
    for entry in sorted(entries, key=lambda path: int(path.name.split(".")[0])):
        lines = entry.read_text().splitlines()[1:]
        paths = [json.loads(line)["path"].removeprefix("file://") for line in lines if line]
        batches[int(entry.name.split(".")[0])] = [path for path in paths if path not in seen]
        seen.update(paths)
    return batches


def _rows(files: list[str]) -> list[tuple[Any, ...]]:
    if not files:
        return []
    table = ds.dataset(files, format="parquet").to_table()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))
