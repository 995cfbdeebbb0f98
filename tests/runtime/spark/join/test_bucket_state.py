"""The state of one bucket: arrays in chunks, what is refused, and when a bucket begins anew."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import FORMAT, SavedState
from semistream.runtime.spark.join.bucket_turn import BucketState, BucketTurn
from semistream.runtime.spark.join.ticks import Epoch, Tick
from semistream.runtime.spark.stateful import chunks
from semistream.runtime.spark.stateful.chunks import chunk_name
from tests.runtime.spark.join.staggered_cases import (
    STREAM,
    Chunks,
    answers_of,
    expected,
    make_plan,
    staged,
    stream_rows,
)

IDENTITY = {"how": "inner"}
EPOCH = Epoch(version=1, algorithm="ssbj", options={"b": 1}, task_bytes=1_000_000, cycle_batches=4)
# The header that releases before the first format number wrote: a pickled head, and arrays by size.
OLD_HEADER = {
    "epoch": EPOCH.as_dict(),
    "pending": 7,
    "marks": "marks",
    "release": "0.9.0",
    "head": ["3-00000000000000000000000000000001"],
    "arrays": [[5, ["5-00000000000000000000000000000002"]]],
    "identity": IDENTITY,
}


class FakeOperator:
    """Keeps whatever state it is given."""

    def __init__(self, saved: SavedState | None = None, pending: int = 0) -> None:
        self.saved = saved
        self.pending = pending

    def exact_state(self) -> SavedState:
        assert self.saved is not None
        return self.saved

    def set_exact_state(self, saved: SavedState) -> None:
        self.saved = saved


def saved_arrays() -> dict[str, Any]:
    return {
        "window/key": np.arange(5000, dtype=np.int64),
        "window/links": np.arange(24, dtype=np.uint32).reshape(2, 3, 4)[:, ::2],
        "cache/used": np.array([True, False]),
        "cache/score": np.array(0.5, dtype=np.float32),
        "cache/empty": np.empty((0, 3), dtype=np.int8),
    }


def saved_in(store: Chunks, pending: int = 3) -> None:
    saved = SavedState({"window": {"entered": 5000}, "cache": {}}, saved_arrays(), exact=True)
    BucketState(store, IDENTITY).save(FakeOperator(saved, pending), EPOCH, "marks")


def restored_from(store: Chunks) -> SavedState:
    op = FakeOperator()
    BucketState(store, IDENTITY).restore(op)
    assert op.saved is not None
    return op.saved


def changed(store: Chunks, change: Callable[[dict[str, Any]], None]) -> None:
    assert store.head is not None
    fields = json.loads(store.head)
    change(fields)
    store.head = json.dumps(fields).encode()


@pytest.mark.parametrize("chunk_bytes", [1 << 10, 1 << 20])
def test_a_state_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch, chunk_bytes: int) -> None:
    monkeypatch.setattr(chunks, "_CHUNK_BYTES", chunk_bytes)
    store = Chunks()
    saved_in(store)
    header = BucketState(store, IDENTITY).header
    assert header is not None
    assert (header.epoch, header.pending, header.marks) == (EPOCH, 3, "marks")
    saved = restored_from(store)
    assert saved.exact
    assert saved.part("window").header == {"entered": 5000}
    assert list(saved.arrays) == list(saved_arrays())
    for name, array in saved_arrays().items():
        found = saved.array(name)
        np.testing.assert_array_equal(found, array, strict=True)
        assert found.flags.writeable


def test_an_array_is_read_when_it_is_asked_for() -> None:
    store = Chunks()
    saved_in(store)
    saved = restored_from(store)
    assert store.read_chunks == 0
    saved.part("cache").array("used")
    assert store.read_chunks == 1


def test_the_header_is_json_with_a_format_number() -> None:
    store = Chunks()
    saved_in(store)
    assert store.head is not None
    fields = json.loads(store.head)
    assert fields["format"] == FORMAT
    assert fields["arrays"][2][:3] == ["cache/used", "|b1", [2]]


@pytest.mark.parametrize(
    ("field", "value", "fault"),
    [
        (1, "|O", r"type '\|O' and shape \[5000\]"),
        (1, "<M8[ns]", "type '<M8"),
        (1, ["<i8"], "type "),
        (2, [-1], r"shape \[-1\]"),
        (2, [5001], r"40000 bytes of type '<i8' and shape \[5001\]"),
        (2, [1 << 62, 1 << 62], "40000 bytes of type '<i8' and shape"),
    ],
)
def test_an_array_that_is_no_array_of_numbers_or_of_another_size_is_refused(field: int, value: Any, fault: str) -> None:
    store = Chunks()
    saved_in(store)
    changed(store, lambda fields: fields["arrays"][0].__setitem__(field, value))
    with pytest.raises(SnapshotMismatch, match=f"{fault}.* for 'window/key'"):
        restored_from(store).array("window/key")


def test_a_chunk_of_another_size_is_refused() -> None:
    store = Chunks()
    saved_in(store)
    name = chunk_name(saved_arrays()["cache/used"].tobytes())
    store.content[name] += b"x"
    with pytest.raises(SnapshotMismatch, match=f"chunk {name} has 3 bytes"):
        restored_from(store).array("cache/used")


def test_pending_tuples_of_an_older_release_are_refused() -> None:
    store = Chunks()
    store.head = json.dumps(OLD_HEADER).encode()
    remedy = r"run the query with the release that wrote it until nothing is pending \(availableNow=True\), or"
    with pytest.raises(SnapshotMismatch, match=f"7 tuples are pending .* of an older release, .*: {remedy}") as refused:
        BucketState(store, IDENTITY)
    assert "\n" not in str(refused.value)


def test_pending_tuples_in_another_format_are_refused() -> None:
    store = Chunks()
    saved_in(store)
    changed(store, lambda fields: fields.update(format=FORMAT + 1))
    with pytest.raises(SnapshotMismatch, match=rf"state of format {FORMAT + 1}, this release reads format {FORMAT}"):
        BucketState(store, IDENTITY)


@pytest.mark.parametrize("form", ["old", "next"])
def test_a_bucket_without_pending_tuples_begins_anew(tmp_path: Path, form: str) -> None:
    table = staged(tmp_path / "master", "ssbj", buckets=1)
    plan = make_plan(table, "ssbj")
    tick = Tick(number=2, epoch=Epoch.of(plan, 1, plan.table.version_id), marks="marks")
    store = Chunks()
    fields = {**OLD_HEADER, "epoch": tick.epoch.as_dict(), "pending": 0, "identity": plan.identity()}
    if form == "next":
        fields = {**fields, "format": FORMAT + 1, "arrays": {"of": "another form"}}
    store.head = json.dumps(fields).encode()
    store.content = {"left by the other release": b"x"}
    batches = [stream_rows(300, seed) for seed in range(3)]
    answers = answers_of([])
    for rows in batches:
        answers += answers_of(BucketTurn(plan, 0, BucketState(store, plan.identity())).run([tick], [rows]))
        assert "left by the other release" not in store.content
        assert json.loads(store.head)["format"] == FORMAT
    while (header := BucketState(store, plan.identity()).header) is not None and header.pending:
        answers += answers_of(BucketTurn(plan, 0, BucketState(store, plan.identity())).run([tick], []))
    assert answers == expected(batches)
    assert batches[0].schema == STREAM


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"5", b"[]", b"{}", b'{"identity": 5}', b"[" * 100_000])
def test_a_header_that_is_none_is_refused_in_one_line(content: bytes) -> None:
    store = Chunks()
    store.head = content
    with pytest.raises(SnapshotMismatch, match="start from a new checkpointLocation") as caught:
        BucketState(store, IDENTITY)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("epoch", 5),
        ("epoch", {**EPOCH.as_dict(), "cycle_batches": 0}),
        ("epoch", {**EPOCH.as_dict(), "task_bytes": "much"}),
        ("epoch", {**EPOCH.as_dict(), "options": 3}),
        ("epoch", {**EPOCH.as_dict(), "options": {"b": [1]}}),
        ("epoch", {**EPOCH.as_dict(), "unknown": 1}),
        ("pending", None),
        ("pending", -1),
        ("state", None),
        ("arrays", 7),
        ("arrays", [["window/key"]]),
        # The name of a chunk becomes that of a file.
        ("arrays", [["window/key", "<i8", [1], ["8-../../../somewhere"]]]),
        ("arrays", [["window/key", "<i8", [1], ["/somewhere"]]]),
    ],
)
def test_a_changed_field_of_a_header_is_refused(field: str, value: object) -> None:
    store = Chunks()
    saved_in(store)
    changed(store, lambda fields: fields.__setitem__(field, value))
    with pytest.raises(SnapshotMismatch):
        _ = BucketState(store, IDENTITY).header


def test_an_epoch_with_more_memory_than_there_is_is_refused(tmp_path: Path) -> None:
    plan = make_plan(staged(tmp_path / "master", "ssbj"), "ssbj")
    epoch = replace(Epoch.of(plan, 1, plan.table.version_id), task_bytes=1 << 50)
    turn = BucketTurn(plan, 0, BucketState(Chunks(), plan.identity()))
    with pytest.raises(SnapshotMismatch, match="bytes of memory, which this executor has not"):
        list(turn.run([Tick(number=1, epoch=epoch, marks="marks")], [stream_rows(10, 1)]))
