"""Small joins that are really run, with frequent keys anywhere in the table, beside the cases that models are told."""

from pathlib import Path
from typing import Any

from semistream.bench.measurements.joins.saturated import PreparedStream, Saturated
from semistream.core.semantics import JoinSpec
from semistream.cost.join_case import JoinCase, StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.loop import Loop
from semistream.operators.driver import StepOperator
from semistream.runtime.local import operator
from semistream.storage import MasterTable, stage
from semistream.workloads import STREAM_SCHEMA, master_table, synthetic


def scattered_table(path: Path, rows: int, page_bytes: int = 4096) -> MasterTable:
    """Stage a clustered table with the keys from 0 on, one row each."""
    return stage(master_table(rows), path, key="key", layout="clustered", page_bytes=page_bytes)


def scattered_case(table: MasterTable, exponent: float) -> JoinCase:
    """Return what a model is told of a join with a stream of this skew."""
    spec = JoinSpec.resolve(STREAM_SCHEMA, table.schema, "key")
    return JoinCase(TableShape.of(table), StreamShape(keys=KeyDistribution.zipf(table.num_rows, exponent)), spec)


def make(name: str, table: MasterTable, memory: int, **options: Any) -> StepOperator:
    return operator(name, table, STREAM_SCHEMA, on="key", memory=memory, **options)


def counts_per_tuple(op: StepOperator, exponent: float, *, warm_up: int, tuples: int) -> Loop:
    """Return what an operator that never lacks tuples did for each, after ``warm_up`` tuples."""
    busy = Saturated(op, PreparedStream(synthetic(op.table.num_rows, zipf_exponent=exponent).stream(0)))
    busy.run(tuples=warm_up)
    work = busy.run(tuples=tuples)
    return Loop.counted(work.counted, op.table.num_rows / op.table.num_pages, loops=work.tuples)
