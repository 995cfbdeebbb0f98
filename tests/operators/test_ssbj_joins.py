"""SSBJ's results are those of the naive join: both disk phases, every kind of join, restored and moved in any state."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import semistream as ss
from semistream.core.semantics import How
from semistream.kernels.keys.key_codes import KeyCoder, KeyCodes
from semistream.operators import PartitionSsbj
from semistream.operators.cache.switching import Phase
from semistream.operators.driver import StepOperator
from semistream.testing import oracle
from tests.depth import covering, examples
from tests.operators.inside import inside
from tests.operators.ssbj_driver import cached_keys, feed, finish, ssbj, step

HOWS: list[How] = ["inner", "left", "semi", "anti"]
PHASES = [("heap", "auto"), ("clustered", "auto"), ("clustered", "scan")]

# Key k has k % 4 rows; key 0 and every fourth have none, and some rows have no key at all.
_KEYS = [key for key in range(40) for _ in range(key % 4)]
MASTER = pa.table(
    {
        "id": pa.array([*_KEYS, None, None, None], pa.int64()),
        "other": pa.array([*[key * 2 for key in _KEYS], 4, None, 6], pa.int64()),
        "row": np.arange(len(_KEYS) + 3),
        "label": [None if n % 5 == 0 else "label" * (n % 7) for n in range(len(_KEYS) + 3)],
    }
).take(np.random.default_rng(2).permutation(len(_KEYS) + 3))


def skewed(seed: int, tuples: int) -> pa.RecordBatch:
    """Return tuples of few hot keys, 8 without rows among them, and of NULL and unknown keys."""
    rng = np.random.default_rng(seed)
    hot = rng.choice([1, 2, 3, 8, 13], tuples)
    ids = np.where(rng.random(tuples) < 0.8, hot, rng.integers(0, 60, tuples))
    notes = ["n" * int(length) for length in rng.integers(0, 20, tuples)]
    return pa.record_batch(
        {
            "id": pa.array(ids, pa.int64(), mask=rng.random(tuples) < 0.03),
            "number": np.arange(tuples),
            "note": notes,
        }
    )


STREAM = skewed(0, 1200)


def expected(how: str, key: str = "id") -> list[oracle.Row]:
    columns = ["row", "label"] if how in ("inner", "left") else []
    return oracle.join([STREAM], MASTER, [("id", key)], how, None, columns)


def stage(path: Path, layout: str, **options: Any) -> ss.MasterTable:
    return ss.stage(MASTER, path, key="id", layout=layout, **{"page_bytes": 1000, **options})


def make(table: ss.MasterTable, disk_phase: str, **options: Any) -> StepOperator:
    return ssbj(
        table,
        STREAM.schema,
        **{"columns": ["row", "label"], "disk_phase": disk_phase, "b": 1, "memory": "500KB", **options},
    )


def check(results: list[pa.RecordBatch], wanted: list[oracle.Row], order: str) -> None:
    rows = oracle.rows_of(results)
    assert oracle.multiset(rows) == oracle.multiset(wanted)
    if order == "stream":
        assert [row[1] for row in rows] == [row[1] for row in wanted]


@pytest.mark.parametrize(("layout", "disk_phase", "how", "order"), covering(PHASES, HOWS, ["any", "stream"], times=2))
def test_results_are_those_of_the_naive_join(
    tmp_path: Path, layout: str, disk_phase: str, how: How, order: str
) -> None:
    table = stage(tmp_path / "r", layout)
    assert table.num_pages > 3
    op = make(table, disk_phase, how=how, order=order)
    assert isinstance(inside(op), PartitionSsbj) == (layout == "clustered" and disk_phase == "auto")
    results = feed(op, STREAM, tuples_per_step=15) + finish(op)
    op.close()
    check(results, expected(how), order)
    assert op.metrics.tuples_through_cache > 200
    assert op.metrics.tuples_through_disk > 50
    assert op.metrics.tuples_answered == STREAM.num_rows
    assert op.metrics.tuples_without_match == len(expected("anti"))
    assert 8 in cached_keys(op), "a hot key without rows is cached as empty"


@pytest.mark.parametrize("how", HOWS)
def test_a_clustered_table_joined_on_another_column_is_scanned(tmp_path: Path, how: How) -> None:
    table = stage(tmp_path / "r", "clustered")
    op = make(table, "auto", on={"id": "other"}, how=how)
    assert inside(op).scan is not None
    results = feed(op, STREAM, tuples_per_step=15) + finish(op)
    op.close()
    check(results, expected(how, "other"), "any")
    assert op.metrics.tuples_through_cache > 200


def test_asking_for_partitions_where_there_are_none_is_refused(tmp_path: Path) -> None:
    heap, clustered = stage(tmp_path / "h", "heap"), stage(tmp_path / "c", "clustered")
    with pytest.raises(ss.SemistreamError, match=r"has layout 'heap': stage it with layout='clustered'"):
        make(heap, "partition")
    with pytest.raises(ss.SemistreamError, match=r"finds rows by the table's key \['id'\], the join compares"):
        make(clustered, "partition", on={"id": "other"})


@pytest.mark.parametrize("order", ["any", "stream"])
@pytest.mark.parametrize(("layout", "disk_phase"), PHASES)
def test_a_snapshot_after_every_step_changes_nothing(tmp_path: Path, layout: str, disk_phase: str, order: str) -> None:
    """In every step; at first in every thirteenth, because what is cached is not part of a snapshot."""
    table = stage(tmp_path / "r", layout)
    stream = STREAM.slice(0, 400)
    op = make(table, disk_phase, how="left", order=order)
    results: list[pa.RecordBatch] = []
    taken = steps = through_cache = 0
    while taken < stream.num_rows or op.pending:
        taken += op.offer(stream.slice(taken, 25))
        results += step(op)
        steps += 1
        if steps > 40 or steps % 13 == 0:
            snapshot, pending = op.snapshot(), op.pending
            through_cache += op.metrics.tuples_through_cache
            op.close()
            op = make(table, disk_phase, how="left", order=order)
            op.restore(snapshot)
            op.check()
            assert op.pending == pending
    op.close()
    assert through_cache > 0
    check(results, oracle.join([stream], MASTER, [("id", "id")], "left", None, ["row", "label"]), order)


class InState:
    """A join on a heap that is in one of the three states, with tuples that have met a part of R."""

    def __init__(self, path: Path, state: Phase, **options: Any) -> None:
        self.table = stage(path, "heap")
        self.op = make(self.table, "scan", how="left", **options)
        self.taken = 0
        self.results: list[pa.RecordBatch] = []
        while not (
            inside(self.op).switching.cycle >= 4 and inside(self.op).switching.phase is state and self._mid_scan()
        ):
            assert self.taken < STREAM.num_rows
            self.offer(15)
            self.results += step(self.op)
        assert cached_keys(self.op)
        assert inside(self.op).stream.tuples_in_window > 0

    def _mid_scan(self) -> bool:
        return bool(inside(self.op).scan.scanned_pages % self.table.num_pages > 1)

    def offer(self, count: int) -> None:
        self.taken += self.op.offer(STREAM.slice(self.taken, count))


@pytest.mark.parametrize("drained", [False, True])
@pytest.mark.parametrize("state", Phase)
def test_a_snapshot_in_each_state_is_exact(tmp_path: Path, state: Phase, drained: bool) -> None:
    """Also with a window that was partly drained: no tuples came for some steps."""
    join = InState(tmp_path / "r", state)
    if drained:
        before = inside(join.op).stream.tuples_in_window
        join.results += step(join.op)
        join.results += step(join.op)
        assert 0 < inside(join.op).stream.tuples_in_window < before
    snapshot = join.op.snapshot()
    again = make(join.table, "scan", how="left")
    again.restore(snapshot)
    assert again.pending == join.op.pending
    join.op.close()
    results = join.results + feed(again, STREAM.slice(join.taken), tuples_per_step=20) + finish(again)
    assert again.metrics.tuples_through_cache > 0, "it caches anew"
    again.close()
    check(results, expected("left"), "any")


@pytest.mark.parametrize("order", ["any", "stream"])
@pytest.mark.parametrize("state", Phase)
def test_moving_to_another_version_in_each_state(tmp_path: Path, state: Phase, order: str) -> None:
    """Each tuple is joined with exactly one version; what was cached of the old one is dropped."""
    join = InState(tmp_path / "r", state, order=order)
    op, taken = join.op, join.taken
    appended = pa.table(
        {"id": [1, 1, 8], "other": [0, 0, 0], "row": [1001, 1002, 1003], "label": ["new"] * 3}, schema=MASTER.schema
    )
    op.move_to(join.table.append(appended))
    assert op.offer(STREAM.slice(taken, 1)) == 0
    results = join.results + finish(op)
    assert not cached_keys(op)
    assert inside(op).switching.cycle == 0
    results += feed(op, STREAM.slice(taken), tuples_per_step=20) + finish(op)
    assert op.metrics.tuples_through_cache > 0
    op.close()
    columns = ["row", "label"]
    wanted = oracle.join([STREAM.slice(0, taken)], MASTER, [("id", "id")], "left", None, columns)
    newer = pa.concat_tables([MASTER, appended])
    wanted += oracle.join([STREAM.slice(taken)], newer, [("id", "id")], "left", None, columns)
    check(results, wanted, order)


def test_moving_by_partitions(tmp_path: Path) -> None:
    table = stage(tmp_path / "r", "clustered")
    op = make(table, "partition", how="left")
    results = feed(op, STREAM.slice(0, 500), tuples_per_step=50)
    assert cached_keys(op)
    appended = MASTER.slice(0, 5)
    op.move_to(table.append(appended))
    results += finish(op)
    assert not cached_keys(op)
    results += feed(op, STREAM.slice(500), tuples_per_step=50) + finish(op)
    op.close()
    columns = ["row", "label"]
    wanted = oracle.join([STREAM.slice(0, 500)], MASTER, [("id", "id")], "left", None, columns)
    newer = pa.concat_tables([MASTER, appended])
    check(results, wanted + oracle.join([STREAM.slice(500)], newer, [("id", "id")], "left", None, columns), "any")


@pytest.mark.parametrize(("layout", "disk_phase", "how"), covering(PHASES, HOWS))
def test_keys_with_one_hash_are_told_apart(
    tmp_path: Path, layout: str, disk_phase: str, how: How, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Text keys under three codes only: row sets of different keys are cached together."""
    codes_of = KeyCoder.codes

    def colliding(self: KeyCoder, columns: Any) -> KeyCodes:
        codes = codes_of(self, columns)
        return KeyCodes(codes.code % 3, codes.valid)

    monkeypatch.setattr(KeyCoder, "codes", colliding)
    as_text = [None if key is None else f"key {key}" for key in MASTER["id"].to_pylist()]
    master = MASTER.set_column(0, "id", pa.array(as_text)).filter(np.arange(MASTER.num_rows) % 3 == 0)
    ids = [None if key is None else f"key {key}" for key in STREAM["id"].to_pylist()]
    stream = pa.record_batch({"id": pa.array(ids), "number": STREAM["number"]})
    table = ss.stage(master, tmp_path / "r", key="id", layout=layout, page_bytes=700)
    op = ssbj(table, stream.schema, columns=["row", "label"], how=how, disk_phase=disk_phase, memory="500KB")
    results = feed(op, stream, tuples_per_step=15) + finish(op)
    op.close()
    assert op.metrics.tuples_through_cache > 0
    assert cached_keys(op) <= {0, 1, 2}
    columns = ["row", "label"] if how in ("inner", "left") else []
    check(results, oracle.join([stream], master, [("id", "id")], how, None, columns), "any")


def test_a_condition_is_checked_for_cached_rows_too(tmp_path: Path) -> None:
    table = stage(tmp_path / "r", "heap")
    condition = ss.compare("number", ">=", "other")
    op = make(table, "auto", how="left", condition=condition)
    results = feed(op, STREAM, tuples_per_step=15) + finish(op)
    op.close()
    assert op.metrics.tuples_through_cache > 200
    check(results, oracle.join([STREAM], MASTER, [("id", "id")], "left", condition, ["row", "label"]), "any")


@pytest.mark.parametrize(("layout", "disk_phase"), PHASES)
def test_the_smallest_key_is_not_that_of_rows_without_one(tmp_path: Path, layout: str, disk_phase: str) -> None:
    """It has the code of a NULL key, whose rows match nothing."""
    smallest = -(2**63)
    master = pa.table({"id": pa.array([None, smallest, 3, None, 4, smallest], pa.int64()), "row": np.arange(6)})
    table = ss.stage(master, tmp_path / "r", key="id", layout=layout)
    stream = pa.record_batch({"id": [smallest] * 300 + [3] * 30, "number": np.arange(330)})
    op = ssbj(table, stream.schema, disk_phase=disk_phase)
    results = feed(op, stream, tuples_per_step=20) + finish(op)
    op.close()
    assert smallest in cached_keys(op)
    check(results, oracle.join([stream], master, [("id", "id")], "inner", None, ["row"]), "any")


def test_a_table_of_one_row_and_a_stream_of_null_keys(tmp_path: Path) -> None:
    table = ss.stage(MASTER.filter(np.array(MASTER["row"]) == 5), tmp_path / "r", key="id", layout="heap")
    nulls = pa.record_batch([pa.array([None] * 50, pa.int64()), *STREAM.slice(0, 50).columns[1:]], schema=STREAM.schema)
    op = make(table, "auto", how="anti")
    assert sum(batch.num_rows for batch in feed(op, nulls) + finish(op)) == 50
    assert op.metrics.pages_read == 0
    op.close()


@examples(0.25)
@given(
    data=st.data(),
    phase=st.sampled_from(PHASES),
    how=st.sampled_from(HOWS),
    order=st.sampled_from(["any", "stream"]),
    rows_of_key=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    page_bytes=st.sampled_from([300, 700, 4096]),
    buckets=st.sampled_from([1, 3]),
    b=st.integers(1, 4),
    factor=st.sampled_from([0.3, 1.0, 3.0]),
)
def test_any_stream_of_few_keys_is_joined_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    phase: tuple[str, str],
    how: How,
    order: str,
    rows_of_key: list[int],
    page_bytes: int,
    buckets: int,
    b: int,
    factor: float,
) -> None:
    """Few keys in many tuples, so that keys move and leave all the time; pauses, snapshots and bursts in between."""
    layout, disk_phase = phase
    random = np.random.default_rng(data.draw(st.integers(0, 1000)))
    ids = random.permutation(np.repeat(np.arange(len(rows_of_key)), rows_of_key))
    master = pa.table({"id": np.append(ids, 99), "row": np.arange(ids.size + 1)})
    table = ss.stage(
        master, tmp_path_factory.mktemp("r") / "r", key="id", layout=layout, page_bytes=page_bytes, buckets=buckets
    )
    options = {"how": how, "order": order, "disk_phase": disk_phase, "b": b, "switching_factor": factor}
    schema = pa.schema([("id", pa.int64()), ("number", pa.int64())])
    op = ssbj(table, schema, memory="400KB", **options)
    batches, results, number = [], [], 0
    for _ in range(data.draw(st.integers(1, 12))):
        few = random.integers(0, len(rows_of_key) + 1, data.draw(st.integers(1, 3)))
        for _ in range(data.draw(st.integers(0, 12))):
            count = data.draw(st.integers(0, 9))
            arriving = pa.record_batch(
                [pa.array(random.choice(few, count)), pa.array(np.arange(number, number + count))], schema=schema
            )
            number += count
            batches.append(arriving)
            assert op.offer(arriving) == count
            results += step(op)
        if data.draw(st.integers(0, 5)) == 0:
            snapshot = op.snapshot()
            op.close()
            op = ssbj(table, schema, memory="400KB", **options)
            op.restore(snapshot)
        if data.draw(st.integers(0, 3)) == 0:
            results += finish(op)
    results += finish(op)
    op.close()
    columns = ["row"] if how in ("inner", "left") else []
    check(results, oracle.join(batches, master, [("id", "id")], how, None, columns), order)
