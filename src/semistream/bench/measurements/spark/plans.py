"""The compared plans: ours, all that Spark can be made to run, and pipelines that only pass rows through."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

import semistream as ss

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from semistream.bench.measurements.spark.tables import MasterForms

__all__ = ["COLD_PLANS", "OURS", "PLANS", "Plan", "plan_named"]

OURS = "semistream"
COLD_PLANS = (OURS, "stream broadcast")
"""Plans that are also measured with the table out of the page cache."""


@dataclass(frozen=True)
class Plan:
    """A way to join a stream with the master table."""

    name: str
    build: "Callable[[DataFrame, MasterForms, int], DataFrame]"
    typical_only: bool = False  # measured only at the typical size of a micro-batch: it takes long at any size


def _ours(stream: "DataFrame", master: "MasterForms", memory_bytes: int) -> "DataFrame":
    return ss.join(stream, master.ours, on="key", memory=memory_bytes)


def _identity(stream: "DataFrame", master: "MasterForms", shuffle: bool) -> "DataFrame":
    """Pass rows through Python with the width of the join's output."""
    from pyspark.sql.types import StructType

    added = [field for field in master.plain().schema if field.name != "key"]
    schema = StructType([*stream.schema.fields, *added])
    values = [pa.scalar(1), pa.scalar(1.0), pa.scalar(1.0), pa.scalar(bytes(88))]

    def widen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        constants: list[pa.Array] = []
        for batch in batches:
            rows = batch.num_rows
            if not constants or len(constants[0]) < rows:
                constants = [pa.repeat(value, rows) for value in values]
            columns = [*batch.columns, *(constant.slice(0, rows) for constant in constants)]
            yield pa.RecordBatch.from_arrays(columns, schema.names)

    if shuffle:
        partitions = stream.sparkSession.conf.get("spark.sql.shuffle.partitions")
        stream = stream.repartition(int(partitions or 2), "key")
    return stream.mapInArrow(widen, schema)


PLANS = (
    Plan(OURS, _ours),
    Plan("identity", lambda stream, master, _: _identity(stream, master, shuffle=False)),
    Plan("identity with shuffle", lambda stream, master, _: _identity(stream, master, shuffle=True)),
    Plan("plain Parquet", lambda stream, master, _: stream.join(master.plain(), "key")),
    # As Spark joins a stream of unknown size, such as Kafka's: the table is shuffled and sorted.
    Plan(
        "plain Parquet, size unknown",
        lambda stream, master, _: stream.join(master.plain().hint("merge"), "key"),
        typical_only=True,
    ),
    Plan("bucketed merge", lambda stream, master, _: stream.join(master.by_key().hint("merge"), "key")),
    # The stream is the build side.
    Plan("bucketed hash", lambda stream, master, _: stream.hint("shuffle_hash").join(master.by_key(), "key")),
    # The stream's batch against a scan of the table.
    Plan("stream broadcast", lambda stream, master, _: stream.hint("broadcast").join(master.plain(), "key")),
    # Where the table fits.
    Plan("table broadcast", lambda stream, master, _: stream.join(master.plain().hint("broadcast"), "key")),
)


def plan_named(name: str) -> Plan:
    return next(plan for plan in PLANS if plan.name == name)
