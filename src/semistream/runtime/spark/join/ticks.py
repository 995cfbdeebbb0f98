"""Ticks: they keep a staggered join going while its stream is silent, and tell its buckets their settings.

Spark runs a micro-batch when a source has something new. Waiting tuples are nothing new, and timers would run batches
for ever, so that ``availableNow`` never ended. So a second source stands beside the stream. It has a new offset while
tuples are pending, when the table has a new version, and when the query was restarted with other settings. A tick is
one small row for each bucket.

A tick carries an epoch: table version, memory, algorithm and options, which decide the rows of each micro-batch. The
epoch is in the tick's offset, and so in the query's offset log: a replayed batch gets the ticks of its first attempt,
even if the query was restarted with other settings. Whether to tick may depend on anything. When in doubt the source
ticks, as after each restart: it costs an empty batch.

Tasks ask for another micro-batch with marks, files beside the table (`KeyMarks` of `core` are something else: the
punctuations of two streams)::

    _pending/<query>/<bucket>.<batch>       written while the batch runs, by the task that leaves tuples pending

A mark is written before its batch commits. The next batch that leaves nothing pending in the bucket removes it. Its
name holds the batch, so that a late task cannot remove the mark of a later batch. A mark too many costs an empty batch;
a missing one would keep tuples waiting, so where there is no folder everything counts as pending.
"""

import base64
import json
import pickle
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from semistream.core.errors import InvalidArgument, PinFailed, SnapshotMismatch, TableNotFound
from semistream.core.saved_state import SavedState
from semistream.runtime.spark.join.plan import JoinPlan, require_budget
from semistream.runtime.spark.stateful.chunks import refusing_broken_checkpoint, require_same_join
from semistream.runtime.spark.stateful.turns import state_keys
from semistream.storage import MasterTable
from semistream.storage.files.store import PENDING, Store

__all__ = ["PACKED_COLUMNS", "TICK_PART", "Epoch", "PendingMarks", "Tick", "TickReader", "tick_stream"]

PACKED_COLUMNS = "key int, part int, number bigint, blob binary"
"""A blob of the stream or a tick: the bucket's state key, the part of the stream, and the blob's number in it."""

TICK_PART = -1  # sorts before all parts of the stream

_SOURCE = "semistream_ticks"
_POLL_S = 0.1  # an idle query asks a hundred times a second; listing the folder each time would be too often
_KNOWN = ".known"  # keeps the folder on stores where an empty folder vanishes
_Plain = str | int | float | bool | None


@dataclass(frozen=True, kw_only=True)
class Epoch:
    """The settings of a stretch of micro-batches; they answer all tuples that arrive in it."""

    version: int
    algorithm: str
    options: dict[str, Any]
    task_bytes: int
    cycle_batches: int
    version_id: str | None = None  # of the very version; None in checkpoints without an id

    @classmethod
    def of(cls, plan: JoinPlan, version: int, version_id: str | None) -> "Epoch":
        for option, value in plan.options.items():
            if not isinstance(value, _Plain):
                raise InvalidArgument(
                    f"{option}={value!r} cannot be kept in a checkpoint: completion='staggered' takes numbers and names"
                )
        return cls(
            version=version,
            version_id=version_id,
            algorithm=plan.algorithm,
            options=plan.options,
            task_bytes=plan.task_bytes,
            cycle_batches=plan.cycle_batches,
        )

    @classmethod
    def of_checkpoint(cls, fields: dict[str, Any]) -> "Epoch":
        """Return the epoch that `as_dict` wrote, unless the checkpoint was changed since."""
        with refusing_broken_checkpoint("epoch"):
            epoch, saved = cls(**fields), SavedState(fields)
            saved.whole_number("version")
            saved.whole_number("task_bytes")
            saved.whole_number("cycle_batches", 1)
            options = epoch.options.items()
            is_plain = all(isinstance(name, str) and isinstance(value, _Plain) for name, value in options)
            saved.require(is_plain, f"options {epoch.options!r}")
            saved.require(isinstance(epoch.algorithm, str), f"algorithm {epoch.algorithm!r}")
            saved.require(isinstance(epoch.version_id, str | None), f"version_id {epoch.version_id!r}")
        return epoch

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Tick:
    """One message to every bucket."""

    number: int
    epoch: Epoch
    marks: str  # the folder of the query's `PendingMarks`

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Tick":
        with refusing_broken_checkpoint("tick"):
            fields = json.loads(content)
            return cls(**{**fields, "epoch": Epoch.of_checkpoint(fields["epoch"])})


class PendingMarks:
    """The marks of one query, in a folder beside the table."""

    def __init__(self, store: Store, query: str) -> None:
        if not isinstance(query, str) or not query.isalnum():  # a folder here, and none elsewhere
            raise SnapshotMismatch(f"the checkpoint has its marks in {query!r}: start from a new checkpointLocation")
        self._store = store
        self._folder = f"{PENDING}/{query}"

    def any(self) -> bool:
        """Return whether tuples are pending anywhere, or nobody has said."""
        names = self._store.names(self._folder)
        return names is None or any(not name.startswith(".") for name in names)

    def update(self, bucket: int, batch: int, pending: int) -> None:
        """Record how many tuples a batch leaves pending in a bucket."""
        try:
            if self._store.names(self._folder) is None:
                self._store.make_folder(self._folder)
                self._write(_KNOWN)
            if pending:
                self._write(f"{bucket}.{batch}")
            outdated = range(batch if pending else batch + 1)
            for name in self._store.names(self._folder) or ():
                marked, _, marked_batch = name.partition(".")
                if marked == str(bucket) and marked_batch.isdecimal() and int(marked_batch) in outdated:
                    self._store.remove(f"{self._folder}/{name}")
        except OSError as error:
            raise PinFailed(
                f"cannot write to {self._store.locate(self._folder)}, which keeps a silent stream going while rows "
                f"wait ({error.strerror}): give a folder that all executors can write with pins="
            ) from None

    def _write(self, name: str) -> None:
        with suppress(FileExistsError):
            self._store.publish(f"{self._folder}/{name}", b"")


def tick_stream(spark: SparkSession, plan: JoinPlan) -> DataFrame:
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
        plan = pickle.loads(base64.b64decode(self.options["plan"]))  # from `tick_stream`, in the same program
        assert isinstance(plan, JoinPlan)
        return TickReader(plan)


class TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Decides when to tick. Lives in the driver for one run of the query.

    An offset holds the name of the marks' folder, the number of the last tick, its epoch, and the join's identity.
    """

    def __init__(self, plan: JoinPlan) -> None:
        self._plan = plan
        self._identity = plan.identity()
        self._has_ticked = False  # in this run
        self._looks_always = False
        self._last: MasterTable | None = None
        self._newest_known = plan.table
        self._looked_s = -_POLL_S

    # --- deciding ---------------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return {"marks": uuid.uuid4().hex, "number": 0, "epoch": None, "identity": self._identity}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._looks_always = True
        if self._plan.refresh != "never":
            self._last = self._newest()  # this run has to end: later versions are for the next one

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        self._require_offset(start)
        if self._has_ticked and not self._is_time_to_look():
            return start
        epoch = self._epoch(start)
        goes_on = self._has_ticked and epoch == start["epoch"]
        if goes_on and not PendingMarks(self._plan.query_files(), start["marks"]).any():
            return start
        self._has_ticked = True
        return {**start, "number": start["number"] + 1, "epoch": epoch}

    def _require_offset(self, offset: dict[str, Any]) -> None:
        """Raise `SnapshotMismatch` for an offset of another join, and for one that was changed."""
        with refusing_broken_checkpoint("offset"):
            require_same_join(offset["identity"], self._identity)
            SavedState(offset).whole_number("number")
            PendingMarks(self._plan.query_files(), offset["marks"])
            if offset["epoch"] is not None:
                Epoch.of_checkpoint(offset["epoch"])

    def _is_time_to_look(self) -> bool:
        now_s = time.monotonic()
        is_time = self._looks_always or now_s - self._looked_s >= _POLL_S
        if is_time:
            self._looked_s = now_s
        return is_time

    def _epoch(self, start: dict[str, Any]) -> dict[str, Any]:
        last = start["epoch"]
        if self._plan.refresh == "never":
            if last is not None:
                return Epoch.of(self._plan, last["version"], last.get("version_id")).as_dict()
            table = self._plan.table
        else:
            table = self._newest() if self._last is None else self._last
            if last is None or table.version_id != last.get("version_id"):
                # A version that cannot be used fails here: after its first tick the query could not go on without it.
                require_same_join({**self._identity, "table": table.table_id}, self._identity)
                require_budget(self._plan, table)
        return Epoch.of(self._plan, table.version, table.version_id).as_dict()

    def _newest(self) -> MasterTable:
        if not self._plan.table.versions():
            raise TableNotFound(
                f"{self._plan.table.path} has no version any more: stage it again, and use a new checkpoint"
            )
        if not self._newest_known.is_newest():
            self._newest_known = self._newest_known.latest()
        return self._newest_known

    # --- ticking ----------------------------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        for offset in (start, end):
            self._require_offset(offset)
        if start["number"] == end["number"]:
            return []
        tick = Tick(number=end["number"], epoch=Epoch.of_checkpoint(end["epoch"]), marks=end["marks"])
        return [InputPartition((tick.number, tick.to_bytes(), state_keys(self._plan.table.buckets)))]

    def read(self, partition: InputPartition) -> Iterator[tuple[int, int, int, bytes]]:
        number, content, keys = partition.value
        for key in keys:
            yield key, TICK_PART, number, content
