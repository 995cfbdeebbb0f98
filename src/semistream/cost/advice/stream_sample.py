"""Estimates a stream from a sample: skew, tuples without a master row, NULL keys, sizes.

Frequent keys keep their frequency in the sample; that of all others follows from the Zipf exponent that fits the sample
(`zipf_fit`). Keys without a row are found with bounded work: in a clustered table by look-ups of the frequent keys and
of some others, in a heap by reading pages.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.core.semantics import JoinSpec
from semistream.cost.advice.table_sample import TableSample
from semistream.cost.advice.zipf_fit import fit_zipf
from semistream.cost.join_case import StreamShape
from semistream.cost.key_distribution import KeyDistribution
from semistream.kernels.arrays import Bools, Int64s
from semistream.operators import algorithm
from semistream.operators.window.matching import EqualityMatching
from semistream.state.varlen_columns import varlen_bytes
from semistream.storage import MasterTable

__all__ = ["StreamEstimate", "estimate_stream"]

_MOST_TUPLES = 1_000_000
_HEAD_COUNT = 20  # the frequency of a key that came so often is known to a quarter
_MOST_HEAD_KEYS = 4096
_LOOKED_UP_HEAD = 1024
_LOOKED_UP_OTHERS = 3072  # a share of them is known to 1 in 100
_LOOKUP_BYTES = 32 << 20
_HEAP_BYTES = 256 << 20


@dataclass(frozen=True, kw_only=True)
class StreamEstimate:
    """A stream in the long run, as far as a sample of so many tuples tells."""

    shape: StreamShape  # tuples with a NULL key are among those without a row
    exponent: float  # of the Zipf distribution that fits
    null_share: float
    tuples: int
    distinct_keys: int

    def __str__(self) -> str:
        return (
            f"{self.tuples:,} tuples with {self.distinct_keys:,} keys: skew {self.exponent:.2f}, "
            f"{self.shape.missing_share:.1%} without a row, {self.null_share:.1%} with a NULL key"
        )


def estimate_stream(
    table: MasterTable,
    spec: JoinSpec,
    batches: Iterable[pa.RecordBatch],
    *,
    rows_per_key: float = 1.0,
    most_tuples: int = _MOST_TUPLES,
) -> StreamEstimate:
    """Return the estimate of a stream from a sample: tuples as they came, or picked at random.

    A key of the table has ``rows_per_key`` rows, from `TableSample.rows_per_key`.
    """
    if not spec.stream_keys:
        raise InvalidArgument("a join on a condition alone has no keys to estimate: give on=")
    sample = _Sample.read(table, spec, batches, most_tuples)
    missing_share, exponent = sample.null_share, 0.0
    keys = KeyDistribution.zipf(1, 0.0)
    if sample.counts.size:
        absent = _absent_share(table, spec, sample, rows_per_key, np.random.default_rng(0))
        missing_share += (1 - sample.null_share) * absent
        keys_of_table = table.num_rows / rows_per_key
        keys, exponent = _distribution(sample.counts, round(keys_of_table / max(1 - absent, 0.5)))
    return StreamEstimate(
        shape=StreamShape(keys=keys, missing_share=min(1.0, missing_share), varlen_bytes=sample.varlen_bytes),
        exponent=exponent,
        null_share=sample.null_share,
        tuples=sample.tuples,
        distinct_keys=sample.counts.size,
    )


@dataclass(frozen=True, kw_only=True)
class _Sample:
    """The keys of a sample: their codes, one tuple of each, and their counts."""

    codes: Int64s
    keys: pa.Table
    counts: Int64s
    tuples: int
    null_share: float
    varlen_bytes: float
    on_key: bool

    @staticmethod
    def read(table: MasterTable, spec: JoinSpec, batches: Iterable[pa.RecordBatch], most_tuples: int) -> "_Sample":
        on_key = table.layout == "clustered" and table.is_key(spec.master_keys)
        matching = EqualityMatching(spec, key_order=table.key if on_key else None)
        codes, keys, tuples, text_bytes = [], [], 0, 0
        for batch in batches:
            batch = spec.conform(batch)[: most_tuples - tuples]
            coded = matching.stream_codes(batch)
            rows = coded.valid_rows()
            codes.append(coded.code[rows])
            keys.append(batch.select(list(spec.stream_keys)).take(pa.array(rows)))
            tuples += batch.num_rows
            text_bytes += int(varlen_bytes(batch).sum())
            if tuples >= most_tuples:
                break
        if tuples == 0:
            raise InvalidArgument("the sample of the stream has no tuples: give one that has, or leave it out")
        all_codes = np.concatenate(codes)
        distinct, first, counts = np.unique(all_codes, return_index=True, return_counts=True)
        return _Sample(
            codes=distinct,
            keys=pa.Table.from_batches(keys).take(pa.array(first)),
            counts=counts,
            tuples=tuples,
            null_share=1 - all_codes.size / tuples,
            varlen_bytes=text_bytes / tuples,
            on_key=on_key,
        )


def _absent_share(
    table: MasterTable, spec: JoinSpec, sample: _Sample, rows_per_key: float, rng: np.random.Generator
) -> float:
    """Return the share of tuples without a row among those whose key is not NULL."""
    if table.num_rows == 0:
        return 1.0
    if not sample.on_key:
        return _absent_by_pages(table, spec, sample, rows_per_key)
    by_count = np.argsort(-sample.counts, kind="stable")
    head, tail = np.sort(by_count[:_LOOKED_UP_HEAD]), by_count[_LOOKED_UP_HEAD:]
    absent = float(sample.counts[head][_absent_keys(table, spec, sample.keys.take(pa.array(head)))].sum())
    if tail.size:
        picked = np.sort(rng.choice(tail, size=min(_LOOKED_UP_OTHERS, tail.size), replace=False))
        without = _absent_keys(table, spec, sample.keys.take(pa.array(picked)))
        weights = sample.counts[picked]
        absent += float(weights[without].sum() / weights.sum() * sample.counts[tail].sum())
    return absent / float(sample.counts.sum())


def _absent_keys(table: MasterTable, spec: JoinSpec, keys: pa.Table) -> Bools:
    """Return which of these keys have no row, looked up one by one."""
    number = "number"
    while number in keys.column_names:
        number += "_"
    asked = keys.append_column(number, pa.array(np.arange(keys.num_rows))).combine_chunks()
    on = dict(zip(spec.stream_keys, spec.master_keys, strict=True))
    lookup = JoinSpec.resolve(asked.schema, table.schema, on, "anti")
    try:
        op = algorithm("inlj").make(table, lookup, _LOOKUP_BYTES, {})
    except BudgetTooSmall as error:
        op = algorithm("inlj").make(table, lookup, max(_LOOKUP_BYTES, error.least_bytes or 0), {})
    absent = np.zeros(keys.num_rows, dtype=np.bool_)
    with op:
        for batch in asked.to_batches():
            while batch.num_rows:
                batch = batch[op.offer(batch) :]
                for answered in op.drain():
                    absent[answered.column(number).to_numpy()] = True
    return absent


def _absent_by_pages(table: MasterTable, spec: JoinSpec, sample: _Sample, rows_per_key: float) -> float:
    """Return the share by reading pages; of a large table some, as if rare keys lacked rows like others."""
    read = TableSample.read(table, spec.master_keys, most_bytes=_HEAP_BYTES)
    found = np.isin(sample.codes, read.codes)
    if read.whole:
        return float(sample.counts[~found].sum() / sample.counts.sum())
    # A frequent key that is not on these pages says little and would weigh much: every key counts once.
    return float(np.clip(1 - found.mean() / read.chance_to_see(rows_per_key), 0.0, 1.0))


def _distribution(counts: Int64s, likely_keys: int) -> tuple[KeyDistribution, float]:
    """Return how often keys come, frequent ones as they came and the others by the fit, and its exponent."""
    tuples = int(counts.sum())
    seen = counts.size
    once, twice = int(np.count_nonzero(counts == 1)), int(np.count_nonzero(counts == 2))
    unseen = once * (once - 1) / (2 * (twice + 1))  # Chao's lower bound
    likely_keys = max(seen, likely_keys)
    fewer = [round(share * likely_keys) for share in (0.5, 0.2, 0.05)]
    fit = fit_zipf(counts, [likely_keys, *(max(seen, keys) for keys in (*fewer, round(seen + unseen)))])
    head = np.sort(counts[counts >= _HEAD_COUNT])[::-1][:_MOST_HEAD_KEYS] / tuples
    if head.size >= fit.domain:
        return KeyDistribution(np.ones(head.size), head / head.sum()), fit.exponent
    zipf = KeyDistribution.zipf(fit.domain, fit.exponent)
    rest = np.clip(np.cumsum(zipf.keys) - head.size, 0, zipf.keys)
    tail_mass = max(0.0, 1.0 - float(head.sum()))
    probability = zipf.probability * tail_mass / float(np.dot(rest, zipf.probability))
    keys = np.concatenate([np.ones(head.size), rest[rest > 0]])
    probability = np.concatenate([head, probability[rest > 0]])
    most_frequent_first = np.argsort(-probability, kind="stable")
    return KeyDistribution(keys[most_frequent_first], probability[most_frequent_first]), fit.exponent
