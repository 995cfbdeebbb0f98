"""A stream that is read by offset, as from a message broker: what was read is served again after a restart."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

__all__ = ["Broker"]


class Broker(DataSource):
    """Options: ``folder`` of numbered files, most ``files`` of a micro-batch, and ``partitions`` to read them by."""

    @classmethod
    def name(cls) -> str:
        return "chaos_broker"

    def streamReader(self, schema: object) -> "BrokerReader":  # noqa: N802
        return BrokerReader(self.options["folder"], int(self.options["files"]), int(self.options["partitions"]))


class BrokerReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """An offset is a number of files; a partition has every n-th of them."""

    def __init__(self, folder: str, most_files: int, partitions: int) -> None:
        self._folder = folder
        self._most_files = most_files
        self._partitions = partitions
        self._last: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"files": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._most_files)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._last = len(self._files())

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802
        last = len(self._files()) if self._last is None else self._last
        return {"files": max(start["files"], min(last, start["files"] + self._most_files))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        files = self._files()[start["files"] : end["files"]]
        return [InputPartition(files[part :: self._partitions]) for part in range(min(self._partitions, len(files)))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for path in partition.value:
            yield from pq.read_table(path).to_batches()

    def _files(self) -> list[str]:
        return sorted(str(path) for path in Path(self._folder).glob("*.parquet") if not path.name.startswith("."))
