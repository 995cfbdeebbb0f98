"""A sink that knows batches by their number, and the settings of stateful queries."""

from collections import Counter
from typing import Any

from pyspark.sql import DataFrame

__all__ = ["CHANGELOG", "LONG_S", "PROVIDER", "ROCKSDB", "KnowingSink"]

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
LONG_S = 400  # for a busy machine: what takes longer hangs


class KnowingSink:
    """A batch that it has is not written again, and is held against what it has of it."""

    def __init__(self) -> None:
        self.batches: dict[int, Counter[tuple[Any, ...]]] = {}
        self.replayed: list[int] = []
        self.fails_once_at: int | None = None

    def __call__(self, rows: DataFrame, batch: int) -> None:
        answers = Counter(tuple(row) for row in rows.collect())
        if batch in self.batches:
            self.replayed.append(batch)
            assert answers == self.batches[batch], f"batch {batch} let other rows out when it was replayed"
            return
        self.batches[batch] = answers
        if batch == self.fails_once_at:
            raise RuntimeError("the sink fails after it has written")

    @property
    def rows(self) -> "Counter[tuple[Any, ...]]":
        return sum(self.batches.values(), Counter())
