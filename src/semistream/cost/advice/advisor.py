"""The advisor: which algorithm, layout, page size and settings for a table and a stream, by the cost models.

Every alternative is predicted. They are ranked by their rate for a memory; by their memory for a rate; for both, those
that meet the rate by their memory, then the others by their rate. The table as it is goes before alternatives that are
a few hundredths better but would have to be staged.
"""

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, NoReturn

import pyarrow as pa

from semistream.core.arguments import require_count
from semistream.core.errors import (
    BudgetTooSmall,
    EmptyTable,
    InvalidArgument,
    NotCalibrated,
    TargetOutOfReach,
    UnknownColumn,
)
from semistream.core.semantics import How, JoinSpec, On
from semistream.core.sizes import format_bytes, parse_bytes
from semistream.cost.advice.advice import Advice, Alternative
from semistream.cost.advice.alternatives import Found, Target, find_alternatives, ranked, table_forms
from semistream.cost.advice.stream_sample import StreamEstimate, estimate_stream
from semistream.cost.advice.table_sample import TableSample
from semistream.cost.advice.tuner import least_memory
from semistream.cost.calibration.calibration_file import clock_named
from semistream.cost.clock import Clock, CostFactors, DiskProfile
from semistream.cost.join_case import StreamShape, TableShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.storage import MasterTable

__all__ = ["ASSUMED_SKEW", "advise"]

ASSUMED_SKEW = 1.0
"""The Zipf exponent of an unknown stream: that of sales, by all accounts."""

_LARGEST_SKEW = 10.0  # one key makes up 99.9% of the tuples
_TABLE_SAMPLE_BYTES = 16 << 20
_REMEDIES_TRIED = 5

Progress = Callable[[str], None]
Sample = Iterable[pa.RecordBatch] | pa.Table


def advise(
    table: MasterTable,
    *,
    stream_schema: pa.Schema | None = None,
    sample: Sample | None = None,
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
    """Return algorithm, layout, page size, settings and buckets for a join, with a prediction of each alternative.

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
        Memory of the join. At least one of rate and memory is needed.
    clock
        ``"machine"``, which has to be calibrated, the disks ``"hdd"`` or ``"ssd"``, or a clock of your own.
    skew, missing_share
        The Zipf exponent of the stream's keys and the share of tuples without a row, in place of a sample's.
    cores
        How many tasks Spark runs at once; the cores of this machine by default.
    progress
        Called with a line for each step.

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
    if skew is not None and not 0 <= skew <= _LARGEST_SKEW:
        raise InvalidArgument(f"skew={skew} must be from 0 to {_LARGEST_SKEW:g}: give a Zipf exponent, such as 1")
    if missing_share is not None and not 0 <= missing_share <= 1:
        raise InvalidArgument(f"missing_share={missing_share} must be from 0 to 1: give a share, such as 0.05")
    if table.num_rows == 0:
        raise EmptyTable(f"{table.path} has no rows, so any join will do: append some first")
    if cores is not None:
        require_count("cores", cores)
    target = Target(
        rate=rate,
        memory_bytes=None if memory is None else parse_bytes(memory, "memory"),
        clock=clock_named(clock) if isinstance(clock, str) else clock,
    )
    on = list(table.key) if on is None else on
    tuples, schema = _opened(sample, stream_schema)
    spec = JoinSpec.resolve(
        _keys_alone(table, on) if schema is None else schema, table.schema, on, how, columns=columns
    )
    tell = progress or (lambda _: None)
    known = _known(table, spec, tuples, skew, missing_share, tell)
    if isinstance(target.clock, CostFactors) and target.clock.measured_on:
        known.assumptions.append(f"costs are those that were measured on {target.clock.measured_on}")
    if isinstance(target.clock, DiskProfile):
        known.assumptions.append("work in memory takes no time: on this clock only reading does")
    found = find_alternatives(target, spec, known.stream, table_forms(table, spec, known.table), tell)
    if not found.alternatives:
        _raise_unreachable(target, found, table)
    best_first = ranked(found.alternatives)
    why = _why(best_first, target)
    if target.rate is not None and not best_first[0].meets_rate:
        why = f"{_remedy(best_first, target, target.rate)} {why}"
    return Advice(
        table=table.path,
        clock_used=target.clock,
        rate=rate,
        memory_bytes=target.memory_bytes,
        alternatives=tuple(best_first),
        buckets=_buckets(table, best_first[0], cores),
        why=why,
        stream=known.estimate,
        assumptions=tuple(known.assumptions),
        left_out=found.left_out,
    )


class _Known(NamedTuple):
    """Table and stream, as the models see them."""

    table: TableShape
    stream: StreamShape
    estimate: StreamEstimate | None
    assumptions: list[str]


def _opened(
    sample: Sample | None, schema: pa.Schema | None
) -> tuple[Iterable[pa.RecordBatch] | None, pa.Schema | None]:
    """Return the batches of a sample, and the schema of the stream; None where there is none."""
    if sample is None:
        return None, schema
    if isinstance(sample, pa.Table):
        return sample.to_batches(), schema or sample.schema
    if schema is None:
        schema = getattr(sample, "schema", None)
    if schema is None:
        sample = list(sample)
        if not sample:
            raise InvalidArgument("the sample of the stream has no tuples: give one that has, or leave it out")
        schema = sample[0].schema
    return sample, schema


def _keys_alone(table: MasterTable, on: On) -> pa.Schema:
    """Return the schema of a stream with nothing but the columns that the join compares."""
    names = [on] if isinstance(on, str) else on
    keys = names if isinstance(names, Mapping) else {name: name for name in names}
    for name in keys.values():
        if name not in table.schema.names:
            known = ", ".join(map(repr, table.schema.names))
            raise UnknownColumn(f"the master table has no column {name!r}: it has {known}")
    return pa.schema([table.schema.field(master).with_name(stream) for stream, master in keys.items()])


def _known(
    table: MasterTable,
    spec: JoinSpec,
    sample: Iterable[pa.RecordBatch] | None,
    skew: float | None,
    missing_share: float | None,
    tell: Progress,
) -> _Known:
    tell("reading some pages of the table")
    read = TableSample.read(table, spec.master_keys, most_bytes=_TABLE_SAMPLE_BYTES)
    rows_per_key = max(1.0, read.rows_per_key())
    shape = TableShape.of(table, rows_per_key)
    assumptions = []
    estimate = None
    if sample is not None:
        tell("reading the sample of the stream")
        estimate = estimate_stream(table, spec, sample, rows_per_key=rows_per_key)
        stream = estimate.shape
    else:
        if skew is None:
            skew = ASSUMED_SKEW
            assumptions.append(f"the keys of the stream are Zipf-distributed with exponent {skew:g} over the table's")
        if missing_share is None:
            missing_share = 0.0
            assumptions.append("every tuple has a row")
        if spec.stream_schema.names == list(spec.stream_keys):
            assumptions.append("tuples are their key alone")
        stream = StreamShape(keys=KeyDistribution.zipf(1, 0.0))
    if skew is not None:
        share = stream.missing_share if missing_share is None else missing_share
        keys = round(shape.keys / max(1 - share, 0.5))
        stream = replace(stream, keys=KeyDistribution.zipf(keys, skew))
    if missing_share is not None:
        stream = replace(stream, missing_share=missing_share)
    return _Known(shape, stream, estimate, assumptions)


def _raise_unreachable(target: Target, found: Found, table: MasterTable) -> NoReturn:
    if found.highest is not None:
        rate, how = found.highest
        raise TargetOutOfReach(
            f"rate={target.rate:g} tuples/s is out of reach on {target.clock.name}, with up to as much memory as the "
            f"table has bytes ({format_bytes(table.num_bytes)}): {how} comes to {rate:,.0f} tuples/s; ask for less, or "
            "divide the stream by key among several processes",
            rate,
        )
    if found.least_bytes is not None:
        raise BudgetTooSmall(
            f"memory={target.memory_bytes} bytes is too small for every algorithm on {table.path}: give at least "
            f"{found.least_bytes} bytes ({format_bytes(found.least_bytes)})",
            found.least_bytes,
        )
    reasons = "; ".join(f"{name}: {why}" for name, why in found.left_out.items())
    raise NotCalibrated(f"no algorithm can be predicted for {table.path} on {target.clock.name}: {reasons}")


def _remedy(alternatives: list[Alternative], target: Target, rate: float) -> str:
    """Return a sentence with the memory that would meet the rate, where the given one does not."""
    would: list[tuple[int, Alternative]] = []
    would_not: list[TargetOutOfReach] = []
    for each in _one_for_each_algorithm(alternatives)[:_REMEDIES_TRIED]:
        try:
            would.append((least_memory(each.algorithm, each.case, rate, target.clock).budget_bytes, each))
        except TargetOutOfReach as error:
            would_not.append(error)
        except BudgetTooSmall:
            continue
    if not would:
        closest = max(would_not, key=lambda error: error.highest_tuples_per_s or 0.0)
        raise closest
    needed, best = min(would, key=lambda found: found[0])
    return f"No alternative keeps up with {rate:,.0f} tuples/s; with {format_bytes(needed)} {best} would."


def _one_for_each_algorithm(alternatives: list[Alternative]) -> list[Alternative]:
    first: dict[str, Alternative] = {}
    for each in alternatives:
        first.setdefault(each.algorithm, each)
    return list(first.values())


def _buckets(table: MasterTable, recommended: Alternative, cores: int | None) -> int:
    """Return as many buckets as tasks run at once; no fewer than the table has."""
    wanted = max(table.buckets, cores or os.cpu_count() or 1)
    return max(table.buckets, min(wanted, recommended.case.table.pages))


def _why(alternatives: list[Alternative], target: Target) -> str:
    best = alternatives[0]
    loop = best.prediction.plan.loop
    cached = f"{loop.cache_share:.0%} of the tuples come from the cache" if loop.cached_tuples else ""
    if loop.pages and loop.disk_tuples:
        served = loop.disk_tuples / loop.pages
        read = f"a page that is read serves {_about(served)} {'of the others' if cached else 'tuples'}"
    else:
        read = "nothing is read from disk" if not loop.pages else ""
    text = ", ".join(filter(None, (cached, read)))
    others = [each for each in _one_for_each_algorithm(alternatives) if each.algorithm != best.algorithm]
    if others:
        text += f"; the next algorithm, {others[0]}, {_beside(best, others[0])}"
    return text[0].upper() + text[1:] + "."


def _about(count: float) -> str:
    return f"{count:,.0f}" if count >= 10 else f"{count:.2g}"


def _beside(best: Alternative, other: Alternative) -> str:
    if best.least_memory_bytes and other.least_memory_bytes:
        text = f"needs {other.least_memory_bytes / best.least_memory_bytes:.3g} times the memory"
        better = other.least_memory_bytes < best.least_memory_bytes
    elif other.tuples_per_s == best.tuples_per_s:
        return "is predicted to be as fast"
    elif math.isinf(best.tuples_per_s):
        return f"is predicted to reach {other.tuples_per_s:,.0f} tuples/s"
    else:
        text = f"is predicted to reach {other.tuples_per_s / best.tuples_per_s:.0%} of its rate"
        better = other.tuples_per_s > best.tuples_per_s
    return f"{text}, but the table would have to be staged again" if better else text
