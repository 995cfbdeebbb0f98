"""Joins on small tables that are really run, beside the cases that models are asked about."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from semistream.core.metrics import Metrics
from semistream.cost.calibration.feeder import Feeder
from semistream.cost.join_case import JoinCase, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.loop import Loop
from semistream.operators.driver import StepOperator
from semistream.runtime.local import operator
from semistream.storage import MasterTable, stage
from semistream.workloads.draws.zipf import Zipf

STREAM = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("value", pa.int32(), nullable=False)])
TEXT_STREAM = pa.schema([*STREAM, pa.field("note", pa.utf8(), nullable=False)])
NOTE_BYTES = 40
NAME_BYTES = 30


def staged(
    path: Path,
    *,
    keys: int,
    rows_per_key: int = 1,
    layout: Literal["heap", "clustered"] = "heap",
    text: bool = False,
    page_bytes: int = 8192,
) -> MasterTable:
    """Stage a table with the keys from 0 on."""
    ids = np.random.default_rng(1).permutation(np.repeat(np.arange(keys), rows_per_key))
    columns: dict[str, pa.Array] = {"id": pa.array(ids), "price": pa.array(ids * 2.0), "stock": pa.array(ids * 3)}
    if text:
        columns["name"] = pa.array([f"{number:0{NAME_BYTES}d}" for number in ids.tolist()])
    return stage(pa.table(columns), path, key="id", layout=layout, page_bytes=page_bytes)


def case_of(op: StepOperator, *, keys: KeyDistribution, rows_per_key: float = 1.0, missing: float = 0.0) -> JoinCase:
    """Return what a model is told of the join that ``op`` runs."""
    has_text = "note" in op.spec.stream_schema.names
    stream = StreamShape(keys=keys, missing_share=missing, varlen_bytes=NOTE_BYTES if has_text else 0.0)
    return JoinCase(TableShape.of(op.table, rows_per_key), stream, op.spec)


def batches(
    schema: pa.Schema, *, domain: int, exponent: float = 0.0, first_key: int = 0, scattered: bool = False
) -> Iterator[pa.RecordBatch]:
    """Yield tuples without end, of ``domain`` keys; ``scattered`` for frequent ones anywhere among them."""
    random = np.random.default_rng(2)
    key_of = random.permutation(domain) if scattered else None
    zipf = Zipf(domain, exponent)
    for _ in count():
        rows = 4096
        rank = zipf.sample(rows, random) - 1
        keys = first_key + (rank if key_of is None else key_of[rank])
        columns = [pa.array(keys), pa.array(np.arange(rows, dtype=np.int32))]
        if "note" in schema.names:
            columns.append(pa.array(["x" * NOTE_BYTES] * rows))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def make(name: str, table: MasterTable, memory: int, schema: pa.Schema = STREAM, **options: Any) -> StepOperator:
    """Return an operator that joins on the key."""
    return operator(name, table, schema, on="id", memory=memory, **options)


def run_steps(op: StepOperator, feeder: Feeder, steps: int) -> Loop:
    """Run so many steps of an operator that never lacks tuples, and return what one did on average."""
    before = Metrics(**op.metrics.as_dict())
    for _ in range(steps):
        feeder.fill(op)
        for _ in op.step():
            pass
    counted = Metrics(**{name: value - getattr(before, name) for name, value in op.metrics.as_dict().items()})
    return Loop.counted(counted, op.table.num_rows / op.table.num_pages, steps)
