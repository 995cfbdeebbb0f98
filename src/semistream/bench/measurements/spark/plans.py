"""The compared plans: ours, all that Spark can be made to run, and pipelines that only pass rows through."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

import semistream as ss
from semistream.storage import MasterTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["COLD_PLANS", "IDENTITY", "OURS", "PLANS", "Master", "Plan", "our_join", "pass_through", "plan_named"]

OURS = "semistream"
IDENTITY = "identity"
COLD_PLANS = (OURS, "stream broadcast")
"""Plans that are also measured with the table out of the page cache."""


class Master(Protocol):
    """A master table as our join takes it; a plan may need more of its own."""

    @property
    def ours(self) -> MasterTable: ...

    def our_files(self) -> list[Path]: ...


@dataclass(frozen=True)
class Plan:
    """A way to join a stream with the master table, with memory of a share of our table's bytes.

    ``files`` are to be in the page cache before a query; others read all of their files in every batch.
    """

    name: str
    build: "Callable[[DataFrame, Any, float], DataFrame]"
    files: "Callable[[Any], list[Path]]" = lambda master: []
    typical_only: bool = False  # measured only at the typical size of a micro-batch: it takes long at any size


def our_join(stream: "DataFrame", master: Master, memory_share: float) -> "DataFrame":
    memory_bytes = int(master.ours.num_bytes * memory_share)
    return ss.join(stream, master.ours, on=list(master.ours.key), memory=memory_bytes)


def pass_through(stream: "DataFrame", added: pa.RecordBatch, rows_out: float = 1.0) -> "DataFrame":
    """Pass rows through Python, widened by the values of ``added``, again and again.

    A whole number of ``rows_out`` repeats the rows so many times; a part drops the rest.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructType

    schema = StructType([*stream.schema.fields, *from_arrow_schema(added.schema).fields])
    names = schema.names
    copies = max(1, int(rows_out))

    def widen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        values = added.slice(0, 0)
        for batch in batches:
            rows = int(batch.num_rows * min(1.0, rows_out))
            if values.num_rows < rows:
                values = added.take(pa.array(np.arange(batch.num_rows) % added.num_rows))
            columns = [*batch.slice(0, rows).columns, *values.slice(0, rows).columns]
            for _ in range(copies):
                yield pa.RecordBatch.from_arrays(columns, names)

    return stream.mapInArrow(widen, schema)


PRODUCT = pa.RecordBatch.from_pylist([{"supplier": 1, "price": 1.0, "weight": 1.0, "payload": bytes(88)}])
"""The columns of one product without its key."""


def _identity_with_shuffle(stream: "DataFrame") -> "DataFrame":
    partitions = stream.sparkSession.conf.get("spark.sql.shuffle.partitions")
    return pass_through(stream.repartition(int(partitions or 2), "key"), PRODUCT)


PLANS = (
    # Spark's tables may have evicted ours.
    Plan(OURS, our_join, lambda master: master.our_files()),
    Plan(IDENTITY, lambda stream, *_: pass_through(stream, PRODUCT)),
    Plan("identity with shuffle", lambda stream, *_: _identity_with_shuffle(stream)),
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
