"""One micro-batch of one bucket of two streams.

A micro-batch has no order inside. A punctuation counts as standing behind all tuples of its stream in the same
micro-batch, so that none of those contradicts it. The rows that leave are all that are known at the end of the
micro-batch, a function of the input alone: a replayed batch returns the same rows, with another memory too.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from semistream.core.errors import SnapshotMismatch
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.core.saved_state import FORMAT, SavedState, validate_rows
from semistream.runtime.spark.metrics.join_metrics import STATE_COUNTERS, MemoryPeak, TaskMetrics
from semistream.runtime.spark.on_executor import running_task
from semistream.runtime.spark.punctuated.packing import MARK_SCHEMA, MARKS, TUPLES, kind_of
from semistream.runtime.spark.punctuated.plan import PunctuatedPlan
from semistream.runtime.spark.session import blob_bytes, gathered_bytes
from semistream.runtime.spark.stateful.chunks import (
    ChunkFiles,
    ChunkStore,
    StoredState,
    refusing_broken_checkpoint,
)
from semistream.runtime.spark.stateful.packing import BlobOrder, pack, unpack
from semistream.runtime.spark.stateful.turns import Frame
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.parts.bucket_key import Buckets
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, SIDES, Side

__all__ = ["AsideFiles", "PunctuatedState", "PunctuatedTurn", "StoredParts", "turn_of_bucket"]

_KINDS = [kind_of(side, content) for side in SIDES for content in (TUPLES, MARKS)]


def turn_of_bucket(
    plan: PunctuatedPlan, bucket: int, chunks: ChunkStore, rows: Iterator[Frame]
) -> Iterator[pa.Buffer | TaskMetrics]:
    """Gather the blobs of a bucket, and join them."""
    state = PunctuatedState(chunks, plan.identity(), ChunkFiles.of_bucket(plan, bucket))
    with ExitStack() as opened:
        aside = None
        if plan.aside is not None:
            task = running_task()
            assert None not in task
            name = f"{task.query}-{plan.join_id[:8]}-{task.batch}-{bucket}"
            aside = opened.enter_context(closing(AsideFiles(plan.aside, name)))
        held_bytes = gathered_bytes(plan.task_bytes) // len(_KINDS)
        blobs = {kind: opened.enter_context(closing(BlobOrder(held_bytes))) for kind in _KINDS}
        for frame in rows:
            columns = (frame[column] for column in ("kind", "part", "number", "blob"))
            for kind, part, number, blob in zip(*columns, strict=True):
                blobs[kind].add(part, number, blob)
        turn = PunctuatedTurn(plan, bucket, state, aside)
        yield from pack(turn.run(blobs), blob_bytes(plan.task_bytes))
        if aside is not None:
            aside.publish()
    yield turn.metrics


class PunctuatedTurn:
    """Brings a bucket from one micro-batch to the next."""

    def __init__(self, plan: PunctuatedPlan, bucket: int, state: "PunctuatedState", aside: "AsideFiles | None") -> None:
        self._plan = plan
        self._bucket = bucket
        self._state = state
        self._aside = aside
        self._peak = MemoryPeak()

    def run(self, blobs: Mapping[int, Iterable[bytes | pa.Buffer]]) -> Iterator[pa.RecordBatch]:
        """Join the batch, blobs by `kind_of` stream and content; yield the rows that leave, and save the state."""
        with closing(self._plan.make(self._bucket, self._state.parts.part)) as op:
            self._state.restore(op)
            before = op.metrics.as_dict()
            for side in self._order():
                yield from self._rows(op, self._tuples(op, side, blobs[kind_of(side, TUPLES)]))
                yield from self._rows(op, self._marks(op, side, blobs[kind_of(side, MARKS)]))
            yield from self._rows(op, op.settle())
            self._state.save(op)
            self.metrics = self._metrics(op, before)

    def _order(self) -> tuple[Side, Side]:
        """Return the streams, first one in which a key comes once: its matches then need not be kept."""
        return (RIGHT, LEFT) if self._plan.relation == "many-to-one" else SIDES

    def _tuples(self, op: Mjoin, side: Side, blobs: Iterable[bytes | pa.Buffer]) -> Iterator[PunctuatedBatch]:
        for rows in unpack(blobs, self._plan.schemas[side]):
            rest = PunctuatedBatch.without_marks(rows, op.key.dtype)
            while len(rest):
                rest = rest.split(op.offer(side, rest))[1]
                if len(rest):
                    yield from op.step()
        while op.queued(side):
            yield from op.step()

    def _marks(self, op: Mjoin, side: Side, blobs: Iterable[bytes | pa.Buffer]) -> Iterator[PunctuatedBatch]:
        """Take in the punctuations of a stream whose tuples have all been joined."""
        buckets = Buckets(self._plan.buckets)
        for marks in unpack(blobs, MARK_SCHEMA):
            low, high = (np.asarray(column) for column in marks.columns)
            lows, highs = buckets.block_ranges(self._bucket, low, high)
            some = lows <= highs  # a narrow range may have no key in this bucket
            yield from op.punctuate(side, lows[some], highs[some])

    def _rows(self, op: Mjoin, results: Iterable[PunctuatedBatch]) -> Iterator[pa.RecordBatch]:
        for result in results:
            self._note(op)
            if len(result):
                yield result.rows
        self._note(op)

    def _note(self, op: Mjoin) -> None:
        self._peak.note(op.memory().components)
        for side, rows in op.take_aside():
            assert self._aside is not None
            self._aside.put(side, rows)

    def _metrics(self, op: Mjoin, before: dict[str, int]) -> TaskMetrics:
        """Return the counters of this batch, from those of the join before it."""
        counters = {name: count - before[name] for name, count in op.metrics.as_dict().items()}
        held = (len(op.state.windows[side]) + op.disk.parts.rows_of(side) for side in SIDES)
        counters |= dict(zip(STATE_COUNTERS, (*held, self._state.nbytes), strict=True))
        return TaskMetrics(
            partition=running_task().partition,
            bucket=self._bucket,
            version=0,
            counters=counters,
            budget_bytes=op.budget_bytes,
            **vars(self._peak),
        )


class AsideFiles:
    """Parquet files for tuples of one bucket that contradict a punctuation, in a folder for each stream.

    Files are named by query, join, micro-batch and bucket, so a replayed batch writes the same ones again. A file under
    its name is whole.
    """

    def __init__(self, folder: str, name: str) -> None:
        self._folder = Path(folder)
        self._name = name
        self._writers: dict[Side, tuple[Any, Path]] = {}
        self._open = ExitStack()

    def put(self, side: Side, rows: pa.RecordBatch) -> None:
        if side not in self._writers:
            folder = self._folder / ("left" if side == LEFT else "right")
            folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f".{self._name}.{os.getpid()}"  # Spark and others ignore files with a dot
            self._writers[side] = self._open.enter_context(pq.ParquetWriter(unfinished, rows.schema)), unfinished
        self._writers[side][0].write_batch(rows)

    def publish(self) -> None:
        self._open.close()
        for _, unfinished in self._writers.values():
            unfinished.replace(unfinished.parent / f"{self._name}.parquet")
        self._writers = {}

    def close(self) -> None:
        self._open.close()
        for _, unfinished in self._writers.values():
            unfinished.unlink(missing_ok=True)


_PART_NAME = re.compile("part-[0-9]{1,16}-[0-9]{1,16}")  # its number and its bytes


# --- its state --------------------------------------------------------------------------------------------------------


class PunctuatedState:
    """Reads and writes the join of one bucket; the state of another format is refused.

    The state in memory is written when a micro-batch ends, except for unchanged chunks. A disk-resident part lies in
    the state store from the beginning, in chunks named by number: the state store is the disk.
    """

    def __init__(self, store: ChunkStore, identity: dict[str, Any], files: ChunkFiles | None) -> None:
        self._stored = StoredState(store, identity, files)
        fields = self._stored.fields
        if fields and not self._stored.is_readable:
            raise SnapshotMismatch(
                f"the checkpoint has state of format {fields.get('format')}, this release reads {FORMAT}: go on with "
                "the release that wrote it, or start from a new checkpointLocation"
            )
        with refusing_broken_checkpoint("state of a bucket"):
            made = SavedState({"parts_made": 0, "part_bytes": 0, **fields})
            self.parts = StoredParts(store, made.whole_number("parts_made"), made.whole_number("part_bytes"))

    @property
    def nbytes(self) -> int:
        """The bucket's size in the state store, without its header."""
        return self._stored.nbytes + self.parts.nbytes

    def restore(self, op: Mjoin) -> None:
        """Let a join that has done nothing go on where the last micro-batch ended."""
        if self._stored.fields:
            op.set_state(SavedState(self._stored.fields["state"], self._stored))

    def save(self, op: Mjoin) -> None:
        saved = op.saved_state()
        self._stored.save(saved, parts_made=self.parts.made, part_bytes=self.parts.nbytes)


class StoredParts:
    """Disk-resident parts in the state store, a chunk for each message."""

    def __init__(self, store: ChunkStore, made: int, nbytes: int) -> None:
        self.store = store
        self.made = made  # how many messages were ever written: a number is not used again
        self.nbytes = nbytes  # of those that are still there

    def part(self, names: list[str]) -> "_StoredPart":
        assert all(map(_PART_NAME.fullmatch, names)), names
        return _StoredPart(self, names)


class _StoredPart:
    def __init__(self, parts: StoredParts, names: list[str]) -> None:
        self._parts = parts
        self.names = names

    def append(self, message: pa.Buffer) -> None:
        self._parts.made += 1
        self._parts.nbytes += message.size
        name = f"part-{self._parts.made}-{message.size}"
        self._parts.store.put_chunk(name, memoryview(message))
        self.names.append(name)

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for name in self.names:
            content = self._parts.store.chunk(name)
            try:
                (rows,) = unpack([content], schema)
                validate_rows(rows)  # the join trusts the offsets of text
            except (pa.ArrowException, EOFError, OSError) as error:
                line = str(error).splitlines()[0]
                raise SnapshotMismatch(
                    f"the checkpoint has no tuples in {name} ({line}): start from a new checkpointLocation"
                ) from None
            yield rows

    def remove(self) -> None:
        for name in self.names:
            self._parts.store.remove_chunk(name)
            self._parts.nbytes -= int(name.rsplit("-", 1)[1])
