"""The advisor: which algorithm, layout, page size and settings for a table and a stream, by the cost models.

All that a join could be run with is predicted, and ranked by what was asked for: by the rate for a memory; by the memory
for a rate; for both, what meets the rate by its memory, then the rest by its rate. The table as it is goes before others
that are a few hundredths better, for they would have to be staged.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, get_args

import pyarrow as pa

from semistream.core.errors import (
    BudgetTooSmall,
    EmptyTable,
    InvalidArgument,
    NotCalibrated,
    TargetOutOfReach,
)
from semistream.core.semantics import How, JoinSpec, On
from semistream.core.sizes import format_bytes, parse_bytes
from semistream.cost.advice import Advice, Alternative
from semistream.cost.clock import Clock
from semistream.cost.clock_names import clock_named
from semistream.cost.key_distribution import KeyDistribution
from semistream.cost.model import JoinCase, Prediction, model_names
from semistream.cost.stream_sample import StreamEstimate, estimate_stream
from semistream.cost.stream_shape import StreamShape
from semistream.cost.table_sample import TableSample
from semistream.cost.table_shape import Layout, TableShape
from semistream.cost.tuner import good_range, highest_rate, least_budget, least_memory
from semistream.cost.usable_algorithms import why_unusable
from semistream.storage import MasterTable

__all__ = ["advise", "advise_on"]

PAGE_SIZES = (8 << 10, 16 << 10, 64 << 10, 256 << 10)

_ASSUMED_SKEW = 1.0
_TABLE_SAMPLE_BYTES = 16 << 20
_PREFERRED_WITHIN = 0.05  # what the table as it is may be worse, and still goes first
_LOOKED_AT_FOR_A_REMEDY = 3

Progress = Callable[[str], None]


def advise(
    table: MasterTable,
    *,
    stream_schema: pa.Schema | None = None,
    sample: Iterable[pa.RecordBatch] | pa.Table | None = None,
    on: On | None = None,
    how: How = "inner",
    columns: Sequence[str] | None = None,
    rate: float | None = None,
    memory: int | str | None = None,
    clock: Clock | str = "machine",
    skew: float | None = None,
    missing_share: float | None = None,
    cores: int | None = None,
    progress: Progress | None = None,
) -> Advice:
    """Return what to run a join with: algorithm, layout, page size, settings and buckets, with what each would do.

    Parameters
    ----------
    stream_schema, sample
        The columns of the stream, or some of its tuples, from which skew and tuples without a row are estimated. With
        neither, tuples are taken to be their key alone.
    on, how, columns
        As for `semistream.operator`; ``on`` is the table's key by default.
    rate
        Tuples per second that the join has to keep up with.
    memory
        What it may use. At least one of rate and memory is needed.
    clock
        ``"machine"``, which has to be calibrated, the disks ``"hdd"`` or ``"ssd"``, or a clock of your own.
    skew, missing_share
        The Zipf exponent of the stream's keys and the share of tuples without a row, in place of what a sample says.
    cores
        How many tasks Spark runs at once; those of this machine by default.
    progress
        Called with a line that says what is being done.

    Raises
    ------
    TargetOutOfReach
        When no memory up to the size of the table reaches the rate.
    BudgetTooSmall
        When the memory is too small for every algorithm.
    NotCalibrated
        When the clock is this machine's, and it has no cost factors.

    Examples
    --------
    >>> import tempfile
    >>> import semistream as ss
    >>> customers = pa.table({"custkey": range(100_000), "name": ["somebody"] * 100_000})
    >>> table = ss.stage(customers, tempfile.mkdtemp(), key="custkey")
    >>> advice = ss.advise(table, memory="4MB", clock="hdd")
    >>> advice.recommended.tuples_per_s > 0
    True
    """
    if rate is None and memory is None:
        raise InvalidArgument("nothing is asked for: give rate=, memory= or both")
    if rate is not None and not 0 < rate < float("inf"):
        raise InvalidArgument(f"rate={rate} must be above 0, and finite: give tuples per second")
    if table.num_rows == 0:
        raise EmptyTable(f"{table.path} has no rows, so that any join will do: append some first")
    memory_bytes = None if memory is None else parse_bytes(memory, "memory")
    on = list(table.key) if on is None else on
    sample, stream_schema = _opened(sample, stream_schema)
    if stream_schema is None:
        stream_schema = _keys_alone(table, on)
    spec = JoinSpec.resolve(stream_schema, table.schema, on, how, columns=columns)
    tell = progress or (lambda _: None)
    known = _known(table, spec, sample, skew, missing_share, tell)
    asked = _Asked(
        clock=clock_named(clock) if isinstance(clock, str) else clock, rate=rate, memory_bytes=memory_bytes, tell=tell
    )
    forms = list(_forms(table, spec, known.table))
    ranked = _ranked(asked, _Search(asked, spec, known.stream, forms).alternatives())
    return Advice(
        table=table.path,
        clock=asked.clock.name,
        rate=rate,
        memory_bytes=memory_bytes,
        alternatives=tuple(ranked.alternatives),
        buckets=_buckets(table, ranked.alternatives[0], cores),
        why=_why(ranked.alternatives, asked),
        stream=known.estimate,
        assumptions=tuple(known.assumptions),
        left_out=ranked.left_out,
    )
