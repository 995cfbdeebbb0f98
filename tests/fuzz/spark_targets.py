"""What staggered completion reads: chunks in the state store and on an executor's disk, ticks and offsets."""

import copy
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql.streaming.datasource import ReadAllAvailable

from semistream.core.errors import SnapshotMismatch
from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.runtime.spark.join.bucket_turn import BucketState, BucketTurn
from semistream.runtime.spark.join.plan import JoinPlan
from semistream.runtime.spark.join.ticks import Epoch, PendingMarks, Tick, TickReader
from semistream.runtime.spark.punctuated.turn import PunctuatedState
from semistream.runtime.spark.stateful.chunks import ChunkFiles
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.parts.join_key import LEFT, RIGHT, Side
from tests.fuzz.findings import Escaped, filled_heap, require_own
from tests.fuzz.mutations import changed_bytes, changed_json
from tests.runtime.spark.join.staggered_cases import Answer, Chunks, answers_of, make_plan, staged, stream_rows

__all__ = ["SparkTargets"]

_Answers = list[tuple[Answer, int]]
_LEFT = pa.schema([("key", pa.int64()), ("left", pa.string())])
_RIGHT = pa.schema([("key", pa.int64()), ("right", pa.string())])


class _Store(Chunks):
    """As lenient as Spark's: what is there is written again, and what is not there can be removed."""

    def chunk(self, name: str) -> bytes:
        if name not in self.content:
            raise SnapshotMismatch(f"chunk {name} is missing")
        return super().chunk(name)

    def put_chunk(self, name: str, content: memoryview) -> None:
        self.content[name] = bytes(content)

    def remove_chunk(self, name: str) -> None:
        self.content.pop(name, None)


class SparkTargets:
    """Cases of one bucket that has tuples waiting and rows in its cache."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "spark"
        self._plan = make_plan(staged(self._folder / "t", "ssbj"), "ssbj")
        self._store = _Store()
        self._files = self._folder / "files"
        for number in range(1, 6):
            self._turn(self._store, self._files, [self._tick(number)], number)
        # The first epoch that a forged header differs from is one to be finished; the other one goes on.
        self._next_plan = make_plan(self._plan.table, "ssbj", cycle_batches=3)
        self._sound = self._turn(copy.deepcopy(self._store), None, [], 6)
        self._punctuated = _Store()
        _join_punctuated(self._punctuated, range(2000), LEFT)
        assert any(name.startswith("part-") for name in self._punctuated.content), "tuples are on disk"
        self.by_name: dict[str, Callable[[Random], None]] = {
            "chunks": self._chunks,
            "punctuated chunks": self._punctuated_chunks,
            "chunk files": self._chunk_files,
            "tick": self._ticks,
            "offset": self._offsets,
        }

    def _tick(self, number: int, plan: JoinPlan | None = None) -> Tick:
        table = self._plan.table
        return Tick(
            number=number, epoch=Epoch.of(plan or self._plan, table.version, table.version_id), marks=f"{number:032x}"
        )

    def _turn(self, store: Chunks, files: Path | None, ticks: Sequence[Tick], seed: int) -> _Answers:
        """Let the bucket join a micro-batch, and mark what it leaves."""
        state = BucketState(store, self._plan.identity(), None if files is None else ChunkFiles(str(files)))
        turn = BucketTurn(self._plan, 0, state)
        answers = answers_of(turn.run(ticks, [stream_rows(100, seed)]))
        PendingMarks(self._plan.query_files(), turn.marks).update(0, seed, turn.pending)
        turn.metrics(0).to_json()
        return sorted(answers.items(), key=repr)

    def _chunks(self, random: Random) -> None:
        store = _changed(random, self._store)
        ticks = [self._tick(6, self._next_plan)] if random.random() < 0.3 else []
        for seed in (6, 7):
            with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
                self._turn(store, Path(scratch) / "deep" / "files", ticks, seed)
                self._require_nothing_beside(Path(scratch), {"deep"})

    def _punctuated_chunks(self, random: Random) -> None:
        store, canary = _changed(random, self._punctuated), filled_heap()
        _join_punctuated(store, range(1000, 1100), RIGHT)
        _join_punctuated(store, range(2000, 2100), LEFT)
        del canary

    def _chunk_files(self, random: Random) -> None:
        """Change copies of chunks: the rows stay what they are."""
        with tempfile.TemporaryDirectory(dir=self._folder) as scratch:
            files = Path(shutil.copytree(self._files, Path(scratch) / "files"))
            for path in random.sample(sorted(files.iterdir()), 2):
                content, action = path.read_bytes(), random.random()
                path.unlink()
                if action < 0.5:
                    path.write_bytes(changed_bytes(random, content))
                elif action < 0.7:
                    path.write_bytes(content[: random.randrange(len(content))])
                elif action < 0.8:
                    path.mkdir()
                elif action < 0.9:
                    path.symlink_to(random.choice(["/dev/null", "absent", path.name]))
            if self._turn(copy.deepcopy(self._store), files, [], 6) != self._sound:
                raise Escaped("damaged copies of chunks change the rows")

    def _ticks(self, random: Random) -> None:
        content = self._tick(6, random.choice([self._plan, self._next_plan])).to_bytes()
        if random.random() < 0.8:
            content = json.dumps(changed_json(random, json.loads(content))).encode()
        else:
            content = changed_bytes(random, content)
        self._turn(copy.deepcopy(self._store), None, [Tick.from_bytes(content)], 6)
        self._require_nothing_beside(self._folder, {"t", "files"})

    def _offsets(self, random: Random) -> None:
        reader = TickReader(random.choice([self._plan, self._next_plan]))
        sound: dict[str, Any] = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        changed = changed_json(random, sound)
        end = changed
        if random.random() < 0.5:
            end = reader.latestOffset(changed, ReadAllAvailable())
        for partition in reader.partitions(random.choice([sound, reader.initialOffset()]), end):
            for *_, content in reader.read(partition):
                self._turn(copy.deepcopy(self._store), None, [Tick.from_bytes(content)], 6)
        self._require_nothing_beside(self._folder, {"t", "files"})

    def _require_nothing_beside(self, folder: Path, names: set[str]) -> None:
        table = {path.name for path in (self._folder / "t").iterdir()}
        if found := {path.name for path in folder.iterdir()} - names | table & {"x"}:
            raise Escaped(f"files were written outside of their folder: {found}")


def _changed(random: Random, sound: _Store) -> _Store:
    """Return a copy of a bucket's state with another header, or with a changed chunk."""
    store = copy.deepcopy(sound)
    assert store.head is not None
    action = random.random()
    if action < 0.5:
        store.head = json.dumps(changed_json(random, json.loads(store.head))).encode()
    elif action < 0.6:
        store.head = changed_bytes(random, store.head)
    else:
        name = random.choice(list(store.content))
        content = store.content[name]
        changes = [changed_bytes(random, content), content[: len(content) // 2], content + b"x"]
        store.content[name] = random.choice([*changes, random.choice(list(store.content.values()))])
    return store


def _join_punctuated(store: _Store, keys: range, side: Side) -> None:
    """Let a join of two streams with little memory go on for a micro-batch, and save its state."""
    state = PunctuatedState(store, {"buckets": 3}, None)
    op = Mjoin(_LEFT, _RIGHT, "key", 64 << 10, pass_on=False, part_store=state.parts.part)
    try:
        state.restore(op)
        for start in range(keys.start, keys.stop, 50):
            chosen = range(start, min(start + 50, keys.stop))
            texts = pa.array([f"text {key}" for key in chosen])
            rows = pa.RecordBatch.from_arrays([pa.array(chosen), texts], schema=(_LEFT, _RIGHT)[side])
            rest = PunctuatedBatch.without_marks(rows, pa.int64())
            while len(rest):
                rest = rest.split(op.offer(side, rest))[1]
                require_own(result.rows for result in op.step())
        while op.queued(side):
            require_own(result.rows for result in op.step())
        require_own(result.rows for result in op.settle())
        state.save(op)
    finally:
        op.close()
