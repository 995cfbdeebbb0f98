"""Small joins for the tests of staggered completion."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import semistream as ss
from semistream.core.semantics import How
from semistream.operators.registry import algorithm
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.storage import MasterTable

MASTER_ROWS = 4000
STREAM = pa.schema([("id", pa.int64()), ("n", pa.int64())])

Answer = tuple[Any, ...]


class Chunks:
    """Keeps the state of one bucket in a dictionary."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.head: bytes | None = None
        self.written_bytes = 0
        self.read_chunks = 0

    def header(self) -> bytes | None:
        return self.head

    def set_header(self, content: bytes) -> None:
        self.head = content

    def chunk(self, name: str) -> bytes:
        self.read_chunks += 1
        return self.content[name]

    def put_chunk(self, name: str, content: memoryview) -> None:
        assert name not in self.content, "a chunk that is there is not written again"
        self.content[name] = bytes(content)
        self.written_bytes += content.nbytes

    def remove_chunk(self, name: str) -> None:
        del self.content[name]

    def clear_chunks(self) -> None:
        self.content.clear()


def master(rows: int = MASTER_ROWS, tag: str = "city") -> pa.Table:
    return pa.table({"id": np.arange(rows), "city": [f"{tag} {n}" for n in range(rows)]})


def staged(path: Path, name: str, buckets: int = 2) -> MasterTable:
    layout = algorithm(name).layouts[0]
    return ss.stage(master(), path, key="id", layout=layout, buckets=buckets, page_bytes=1024)


def stream_rows(rows: int, seed: int) -> pa.RecordBatch:
    """Return a skewed stream; some keys have no master row, and some are NULL."""
    random = np.random.default_rng(seed)
    ids = random.zipf(1.3, rows) % (MASTER_ROWS + 40)
    return pa.RecordBatch.from_arrays(
        [pa.array(ids, mask=random.random(rows) < 0.02), pa.array(np.arange(rows) + 1_000_000 * seed)], schema=STREAM
    )


def make_plan(table: MasterTable, name: str, how: How = "inner", **changes: Any) -> JoinPlan:
    # One page a step where the algorithm lets us choose, so that a pass takes many steps.
    options = {} if name in ("inlj", "cinlj", "sweepjoin") else {"b": 1}
    return JoinPlan(
        **{
            "join_id": "a-join",
            "table": table,
            "stream_schema": STREAM,
            "on": {"id": "id"},
            "how": how,
            "columns": None,
            "algorithm": name,
            "options": options,
            "task_bytes": 1_000_000,
            "slots": 2,
            "exchange": "bucket",
            "refresh": "batch",
            "completion": "staggered",
            "cycle_batches": 4,
            **changes,
        }
    )


def expected(batches: Iterable[pa.RecordBatch], how: How = "inner", tag: str = "city") -> "Counter[Answer]":
    """Return the join with `master`, in which every id is its own row number."""
    answers: Counter[Answer] = Counter()
    for batch in batches:
        for row in batch.to_pylist():
            matches = row["id"] is not None and row["id"] < MASTER_ROWS
            city = f"{tag} {row['id']}" if matches else None
            if how == "left" or (how == "inner" and matches):
                answers[row["id"], row["n"], city] += 1
            elif matches == (how == "semi") and how in ("semi", "anti"):
                answers[row["id"], row["n"]] += 1
    return answers


def answers_of(batches: Iterable[pa.RecordBatch]) -> "Counter[Answer]":
    return Counter(tuple(row.values()) for batch in batches for row in batch.to_pylist())
