"""Two small streams of files with punctuations, and what their join has to be."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import semistream as ss

Row = tuple[Any, ...]

LEFT_COLUMNS = "id bigint, n bigint, is_end boolean"
RIGHT_COLUMNS = "id bigint, m bigint, is_end boolean"
_SCHEMAS = {
    "left": pa.schema([("id", pa.int64()), ("n", pa.int64()), ("is_end", pa.bool_())]),
    "right": pa.schema([("id", pa.int64()), ("m", pa.int64()), ("is_end", pa.bool_())]),
}


class PunctuatedFiles:
    """Both streams as folders of files, one for each micro-batch.

    Keys live for a while in a window that moves on with every batch; those that it leaves behind are punctuated on both
    sides. Some are NULL.
    """

    def __init__(self, folder: Path, *, window: int = 60, step: int = 20, rows: int = 150) -> None:
        self.folder = folder
        self._window, self._step, self._rows = window, step, rows
        self.tuples: dict[str, list[Row]] = {"left": [], "right": []}
        self.batches = 0
        for side in self.tuples:
            (folder / side).mkdir(parents=True, exist_ok=True)

    @property
    def first_open(self) -> int:
        """All keys before this one are over."""
        return self.batches * self._step

    def write(self, seed: int) -> None:
        """Write the next micro-batch."""
        random = np.random.default_rng([seed, self.batches])
        low = self.first_open
        for side, tuples in self.tuples.items():
            ids: list[int | None] = random.integers(low, low + self._window, self._rows).tolist()
            ids = [None if random.random() < 0.03 else key for key in ids]
            rows = [(key, len(tuples) + number, False) for number, key in enumerate(ids)]
            tuples.extend(row[:2] for row in rows)
            rows += [(key, None, True) for key in range(low, low + self._step)]  # type: ignore[misc]
            order = random.permutation(len(rows))  # a micro-batch has no order
            self._put(side, [rows[at] for at in order])
        self.batches += 1

    def write_rows(self, side: str, rows: list[Row]) -> None:
        """Write rows of one stream as a micro-batch of their own."""
        self.tuples[side].extend(row[:2] for row in rows if not row[2])
        self._put(side, rows)

    def _put(self, side: str, rows: list[Row]) -> None:
        count = len(list((self.folder / side).glob("*.parquet")))
        path = self.folder / side / f"{count:04d}.parquet"
        columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMAS[side], strict=True)]
        hidden = path.with_name(f".{path.name}")
        pq.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMAS[side]), hidden)
        os.utime(hidden, (count, count))
        hidden.rename(path)

    def joined(self, how: str = "inner") -> "Counter[Row]":
        """Return the join of all tuples; of left ones without a match, those whose key is over."""
        by_key: dict[int, list[int]] = {}
        for key, m in self.tuples["right"]:
            if key is not None:
                by_key.setdefault(key, []).append(m)
        out: Counter[Row] = Counter()
        for key, n in self.tuples["left"]:
            matches = [] if key is None else by_key.get(key, [])
            out.update((key, n, m) for m in matches)
            if how == "left" and not matches and (key is None or key < self.first_open):
                out[key, n, None] += 1
        return out

    def open_tuples(self) -> int:
        """Return how many tuples may still match something that comes."""
        return sum(key is not None and key >= self.first_open for rows in self.tuples.values() for key, _ in rows)

    def join(self, spark: SparkSession, how: str = "inner", **arguments: Any) -> DataFrame:
        """Return the join on Spark."""
        left, right = (
            spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(self.folder / side))
            for side, columns in (("left", LEFT_COLUMNS), ("right", RIGHT_COLUMNS))
        )
        given = {"punctuations": {"left": "is_end", "right": "is_end"}, "memory": "8MB", "buckets": 3, **arguments}
        return ss.punctuated_join(left, right, "id", how, **given)  # type: ignore[arg-type]
