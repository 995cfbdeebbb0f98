"""The tick source: keeps a join going while the stream is silent, and tells its buckets what to go by.

Spark runs a micro-batch when a source has something new. Tuples that wait for pages are nothing new, timers would run
batches for ever (``availableNow`` would never end), and without them a silent stream runs none. So a second source
stands beside the stream: it has a new offset while any tuple is pending, or when the table has a new version or the
query was restarted with other settings. A tick is one small row for each bucket.

What a tick says is in its offset, and so in the query's offset log: a batch that is replayed sees the ticks of its
first attempt. Whether there is another tick may depend on anything. When in doubt there is one: it costs an empty
batch. After a restart there always is.
"""

import base64
import pickle
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from semistream.core.errors import TableNotFound
from semistream.runtime.spark.join.epoch import Epoch, Tick, identity_of, require_same_join
from semistream.runtime.spark.join.fitting import require_fit
from semistream.runtime.spark.join.pending_marks import PendingMarks
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.stateful.packing import PACKED_COLUMNS
from semistream.runtime.spark.stateful.state_keys import state_keys

__all__ = ["TICK_PART", "TickReader", "tick_stream"]

TICK_PART = -1  # sorts before all parts of the stream

_SOURCE = "semistream_ticks"
_POLL_S = 0.1  # an idle query asks a hundred times a second; not every time a listing


def tick_stream(spark: SparkSession, plan: JoinPlan) -> DataFrame:
    """Return the ticks of a join as a stream."""
    spark.dataSource.register(_TickSource)
    content = base64.b64encode(pickle.dumps(plan)).decode("ascii")
    return spark.readStream.format(_SOURCE).option("plan", content).load()


class _TickSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _SOURCE

    def schema(self) -> str:
        return PACKED_COLUMNS

    def streamReader(self, schema: object) -> "TickReader":  # noqa: N802
        plan = pickle.loads(base64.b64decode(self.options["plan"]))
        assert isinstance(plan, JoinPlan)
        return TickReader(plan)


class TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Decides when to tick. Lives in the driver, as long as a run of the query.

    An offset holds the name under which marks are kept, the number of the last tick, its epoch, and what join it is.
    """

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan
        self._identity = identity_of(plan)
        self._has_ticked = False  # whether this run has ticked
        self._looks_always = False
        self._last_version: int | None = None
        self._looked_s = -_POLL_S

    # --- deciding ---------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"marks": uuid.uuid4().hex, "number": 0, "epoch": None, "identity": self._identity}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._looks_always = True
        if self._plan.refresh != "never":
            self._last_version = self._newest()  # versions that come later are for the next run: this one has to end

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        require_same_join(start["identity"], self._identity)
        if self._has_ticked and not self._time_to_look():
            return start
        epoch = self._epoch(start)
        if self._has_ticked and epoch == start["epoch"] and not self._is_pending(start):
            return start
        self._has_ticked = True
        return {**start, "number": start["number"] + 1, "epoch": epoch}

    def _time_to_look(self) -> bool:
        now_s = time.monotonic()
        if self._looks_always or now_s - self._looked_s >= _POLL_S:
            self._looked_s = now_s
            return True
        return False

    def _epoch(self, start: dict[str, Any]) -> dict[str, Any]:
        table = self._plan.table
        if self._plan.refresh == "never":
            version = table.version if start["epoch"] is None else start["epoch"]["version"]
        else:
            version = self._newest() if self._last_version is None else self._last_version
            if start["epoch"] is None or version != start["epoch"]["version"]:
                newest = table.at_version(version)  # one that cannot be read fails here, before any batch uses it
                require_same_join({**self._identity, "table": newest.table_id}, self._identity)
                require_fit(self._plan, newest)  # once there is a tick for it, the query cannot go on without it
        return Epoch.of(self._plan, version).as_dict()

    def _newest(self) -> int:
        versions = self._plan.table.versions()
        if not versions:
            raise TableNotFound(
                f"{self._plan.table.path} has no version any more: stage it again, and use a new checkpoint"
            )
        return versions[-1]

    def _is_pending(self, start: dict[str, Any]) -> bool:
        return PendingMarks(self._plan.notes(), start["marks"]).any()

    # --- ticking ----------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        require_same_join(end["identity"], self._identity)
        if start["number"] == end["number"]:
            return []
        tick = Tick(number=end["number"], epoch=Epoch(**end["epoch"]), marks=end["marks"])
        return [InputPartition((tick.number, tick.to_bytes(), state_keys(self._plan.table.buckets)))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int, bytes]]:
        number, content, keys = partition.value
        for key in keys:
            yield key, TICK_PART, number, content

    def commit(self, end: dict[str, Any]) -> None:
        pass

    def stop(self) -> None:
        pass
