"""A workload: a master table and a stream that asks for its keys, under a name that says where they come from."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from semistream.workloads.master_table import MASTER_SCHEMA, master_table
from semistream.workloads.stream import stream
from semistream.workloads.stream_batches import ENDLESS, STREAM_SCHEMA

__all__ = ["Workload", "synthetic"]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """What an experiment joins.

    Attributes
    ----------
    name
        What it is called in results.
    table_name
        Names the master table with all that decides its rows, fit for a folder: workloads with the same table share it.
    provenance
        Synthetic or real, from whom and by which rule.
    key
        The column that both sides are joined on.
    num_rows
        Of the master table.
    master
        Returns its rows.
    stream
        Returns an endless stream for a seed; data with an end begin anew.
    """

    name: str
    table_name: str
    provenance: str
    key: str
    num_rows: int
    master_schema: pa.Schema
    stream_schema: pa.Schema
    master: Callable[[], pa.RecordBatchReader]
    stream: Callable[[int], Iterator[pa.RecordBatch]]


def synthetic(rows: int, *, zipf_exponent: float, scatter_hot_keys: bool = True, seed: int = 0) -> Workload:
    """Return the papers' synthetic workload: every key once in R, Zipf-distributed in the stream.

    Parameters
    ----------
    scatter_hot_keys
        Whether frequent keys lie anywhere in the domain; otherwise the smallest keys are the most frequent.

    Examples
    --------
    >>> workload = synthetic(1000, zipf_exponent=1.0)
    >>> next(workload.stream(7)).schema.names
    ['key', 'sale', 'quantity']
    """
    return Workload(
        name=f"synthetic, {rows:,} rows, skew {zipf_exponent:g}{'' if scatter_hot_keys else ', hot keys first'}",
        table_name=f"permuted-{rows}-rows-seed-{seed}",
        provenance="synthetic: each key in one row of 120 bytes, in random order; Zipf-distributed stream of 20 bytes",
        key="key",
        num_rows=rows,
        master_schema=MASTER_SCHEMA,
        stream_schema=STREAM_SCHEMA,
        master=lambda: master_table(rows, seed=seed),
        stream=lambda stream_seed: iter(
            stream(
                ENDLESS,
                key_domain=rows,
                zipf_exponent=zipf_exponent,
                scatter_hot_keys=scatter_hot_keys,
                seed=stream_seed,
            )
        ),
    )
