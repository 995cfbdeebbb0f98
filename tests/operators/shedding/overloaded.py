"""Overloaded streams in small: more is offered than is stepped, in bursts with pauses between them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import semistream as ss
from semistream.core.semantics import How, Order
from semistream.operators.driver import StepOperator
from semistream.operators.shedding.load_relief import LoadRelief
from semistream.operators.shedding.load_shedding import ALL_STRATEGIES, UPFRONT_STRATEGIES, LoadShedding, Strategy
from semistream.storage import MasterTable
from semistream.testing import oracle

STRATEGIES: dict[str, frozenset[Strategy]] = {
    "hybridjoin": ALL_STRATEGIES,
    "chybridjoin": ALL_STRATEGIES,
    "meshjoin": UPFRONT_STRATEGIES,
    "cmeshjoin": UPFRONT_STRATEGIES,
}
COMBINATIONS = [(name, strategy) for name, allowed in STRATEGIES.items() for strategy in sorted(allowed)]
# Every operator, every strategy, and a queue as well as a buffer to shed from.
ONE_OF_EACH: list[tuple[str, Strategy]] = [
    ("hybridjoin", "considering"),
    ("hybridjoin", "random"),
    ("chybridjoin", "considering"),
    ("meshjoin", "random"),
    ("cmeshjoin", "keep"),
]
HOWS: tuple[How, ...] = ("inner", "left", "semi", "anti")
ORDERS: tuple[Order, ...] = ("any", "stream")

_REMAINDERS = 50

# Tuples offered, then steps made: most of the time far more comes than a step can answer.
BURSTS = ((400, 1), (90, 3), (0, 6), (300, 2), (5, 4), (700, 1), (0, 1))


@dataclass(frozen=True)
class Load:
    """A table, and a stream that is too much for it; tuples are told apart by ``number``."""

    master: pa.Table
    stream: pa.RecordBatch
    page_bytes: int = 1024

    def staged(self, directory: Path) -> MasterTable:
        return ss.stage(self.master, directory / "master", key="id", page_bytes=self.page_bytes)

    def expected(self, how: How) -> list[oracle.Row]:
        return _expected(self, how)

    def __hash__(self) -> int:
        return id(self)


@cache
def _expected(load: Load, how: How) -> list[oracle.Row]:
    """Join the keys of one remainder after the other: the oracle compares all with all."""
    columns = [name for name in load.master.column_names if name != "id"] if how in ("inner", "left") else []
    stream_remainders, master_remainders = (
        np.asarray(pc.fill_null(table.column("id"), -1)) % _REMAINDERS for table in (load.stream, load.master)
    )
    rows: list[oracle.Row] = []
    for remainder in range(_REMAINDERS):
        stream = load.stream.filter(pa.array(stream_remainders == remainder))
        master = load.master.filter(pa.array(master_remainders == remainder))
        rows += oracle.join([stream], master, [("id", "id")], how, None, columns)
    return sorted(rows, key=lambda row: int(row[1]))


def _made(tuples: int, rows: int, keys: int, seed: int) -> Load:
    """Return a many-to-many join in which some keys have no row, some are NULL, and a few are frequent."""
    rng = np.random.default_rng(seed)
    master = pa.table({"id": np.arange(rows) % keys, "row": np.arange(rows), "label": [f"l{n}" for n in range(rows)]})
    drawn = np.where(
        rng.random(tuples) < 0.2, rng.integers(0, 8, tuples) * 50, rng.integers(0, keys + keys // 5, tuples)
    )
    stream = pa.record_batch(
        {
            "id": pa.array(drawn, mask=rng.random(tuples) < 0.02),
            "number": np.arange(tuples),
            "note": ["n" * int(length) for length in rng.integers(0, 20, tuples)],
        }
    )
    return Load(master, stream)


LOAD = _made(tuples=1_500, rows=1_500, keys=1_000, seed=1)


MADE: list[StepOperator] = []


def operator(
    name: str,
    table: MasterTable,
    schema: pa.Schema,
    shedding: ss.SheddingConfig | str | None,
    *,
    how: How = "inner",
    order: Order = "any",
    memory: int | None = None,
    **options: Any,
) -> StepOperator:
    """Return an operator whose iterations are small beside what comes."""
    b = 4 if "mesh" in name else 1
    memory = memory or (130_000 if order == "any" else 170_000)
    settings = {"b": b, "order": order, "shedding": shedding, **options}
    op = ss.operator(name, table, schema, on="id", how=how, memory=memory, **settings)
    MADE.append(op)
    return op


def shedding_of(op: StepOperator) -> LoadShedding:
    part = op.join.shedding
    assert isinstance(part, LoadRelief)
    return part._shedding


def check(op: StepOperator, pending_before: int = 0, shed_before: int = 0) -> None:
    """Assert what holds after every step; the operator may have been restored with tuples pending or shed."""
    report = op.memory()
    assert report.total_bytes <= report.budget_bytes
    op.check()
    shedding = shedding_of(op)
    shedding._check()
    counted = op.metrics
    assert counted.tuples_in + pending_before == counted.tuples_answered + op.pending + counted.tuples_dropped
    inside = shedding.tuples_inside
    assert counted.tuples_shed + shed_before == counted.tuples_reloaded + inside + counted.tuples_dropped


def step(op: StepOperator, pending_before: int = 0, shed_before: int = 0) -> list[pa.RecordBatch]:
    results = list(op.step())
    check(op, pending_before, shed_before)
    return results


def drive(
    op: StepOperator,
    stream: pa.RecordBatch,
    bursts: Iterable[tuple[int, int]] = BURSTS,
    after_step: Callable[[], object] = lambda: None,
) -> Iterator[pa.RecordBatch]:
    """Offer the stream in bursts, which are repeated until all of it was taken, and drain."""
    taken = 0
    for tuples, steps in cycle(bursts):
        if taken == stream.num_rows:
            break
        taken += op.offer(stream.slice(taken, tuples))
        for _ in range(steps):
            yield from step(op)
            after_step()
    for batch in op.drain():
        assert op.memory().total_bytes <= op.budget_bytes
        yield batch
    check(op)
    assert op.pending == 0


def check_rows(
    results: Iterable[pa.RecordBatch], expected: list[oracle.Row], order: Order = "any", number: int = 1
) -> None:
    """Assert that results are as expected; in stream order by the column ``number``, if that was asked for."""
    rows = oracle.rows_of(results)
    assert oracle.multiset(rows) == oracle.multiset(expected)
    if order == "stream":
        assert [row[number] for row in rows] == [row[number] for row in expected]
