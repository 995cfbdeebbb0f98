"""A workload: a master table and a stream that asks for its keys."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa

__all__ = ["Workload"]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """The master table and the stream of an experiment.

    ``table_name`` names the master table by all that decides its rows, fit for a folder: workloads with the same table
    share it. ``provenance`` says whether the data are real, with source and rule. ``stream`` returns an endless stream
    for a seed; finite data begin again.
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
