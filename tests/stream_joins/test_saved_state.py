"""The state of a join goes on exactly where it was taken, and outlives names of classes and releases."""

import gc
import inspect
import json
import weakref
from collections.abc import Iterator
from contextlib import closing
from pkgutil import walk_packages
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

import semistream.stream_joins
from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import unpack_state
from semistream.state.spill_file import SpillFile
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.parts.join_key import LEFT, RIGHT
from semistream.stream_joins.shj import Shj
from semistream.stream_joins.xjoin import Xjoin
from semistream.testing.conformance import fill_new_memory
from tests.depth import examples
from tests.stream_joins.states import busy, kept
from tests.stream_joins.streams import LEFT_SCHEMA, RIGHT_SCHEMA, Streams, batch, streams


def _trace(op: StreamJoin, given_streams: Streams, steps: list[int], start: int) -> Iterator[Any]:
    """Offer batches from one on, with some steps after each, and yield all that can be seen of a join."""
    for number, (side, offered) in enumerate(given_streams.offers[start:], start):
        assert op.offer(side, offered) == len(offered)
        for _ in range(steps[number % len(steps)]):
            yield _seen(op)
    yield [_leaving(result) for result in op.finish()]


def _seen(op: StreamJoin) -> Any:
    results = [_leaving(result) for result in op.step()]
    op.check()
    return results, op.metrics.as_dict(), [len(window) for window in op.state.windows]


def _leaving(result: Any) -> Any:
    return result.rows.to_pylist(), result.marks.low.to_pylist(), result.marks.high.to_pylist()


@pytest.mark.parametrize("kind", [Shj, Xjoin, Mjoin])
@examples(0.3)
@given(data=st.data())
def test_a_restored_join_does_the_same_in_the_same_steps(kind: type[StreamJoin], data: st.DataObject) -> None:
    options: dict[str, Any] = {"how": data.draw(st.sampled_from(["inner", "left"]))}
    if kind is Mjoin:
        options |= {
            "goal": data.draw(st.sampled_from(["output", "memory", "propagation"])),
            "stream_order": data.draw(st.sampled_from(["chosen", "random", "priority"])),
            "tuple_order": data.draw(st.sampled_from(["chosen", "sequential", "value"])),
            "quota": data.draw(st.sampled_from(["chosen", 1, 3])),
            "purge_every": data.draw(st.sampled_from(["chosen", 2])),
        }
    given_streams = data.draw(streams())
    steps = data.draw(st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=5))
    moved_at = data.draw(st.integers(0, len(given_streams.offers)))

    def make() -> StreamJoin:
        return kind(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 4 << 20, **options)

    op, again = make(), make()
    for _ in _trace_until(op, given_streams, steps, moved_at):
        pass
    again.restore(op.snapshot())
    again.check()
    assert again.snapshot() == op.snapshot()
    assert list(_trace(again, given_streams, steps, moved_at)) == list(_trace(op, given_streams, steps, moved_at))
    op.close()
    again.close()


def _trace_until(op: StreamJoin, given_streams: Streams, steps: list[int], end: int) -> Iterator[Any]:
    for number, (side, offered) in enumerate(given_streams.offers[:end]):
        assert op.offer(side, offered) == len(offered)
        for _ in range(steps[number % len(steps)]):
            yield _seen(op)


@pytest.mark.parametrize("kind", [Shj, Xjoin, Mjoin])
def test_a_state_depends_on_nothing_but_the_input(kind: type[StreamJoin], monkeypatch: pytest.MonkeyPatch) -> None:
    # Spark may go on from one attempt of a micro-batch with the changes that another attempt wrote.
    first = _state_in_memory(kind)  # compiles kernels, which take np.empty as it is
    fill_new_memory(monkeypatch)
    assert _state_in_memory(kind) == first


def _state_in_memory(kind: type[StreamJoin]) -> bytes:
    with closing(kind(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 4 << 20, how="left")) as op:
        for start in range(0, 600, 60):
            op.offer(LEFT, batch(LEFT, list(range(start, start + 60)), start, [(60, start, start + 5)]))
            op.offer(RIGHT, batch(RIGHT, list(range(start, start + 20)), start, [(20, start + 30, start + 30)]))
            list(op.step())
        op.offer(LEFT, batch(LEFT, [1000, None], 600, [(1, 1001, 1001)]))
        assert len(op.state.windows[LEFT]) > 100
        return op.snapshot()


def _classes() -> set[str]:
    modules = walk_packages(semistream.stream_joins.__path__, "semistream.stream_joins.")
    found = [inspect.getmembers(__import__(module.name, fromlist=["x"]), inspect.isclass) for module in modules]
    return {name for members in found for name, _ in members}


def test_a_state_survives_the_rename_of_a_class() -> None:
    op = busy()
    assert isinstance(op, Mjoin)
    assert op.disk.parts.used
    snapshot = op.snapshot()
    header = json.dumps(unpack_state(snapshot).header)
    assert {"Mjoin", "MemoryState", "Unpassed"} <= _classes()
    assert not [name for name in _classes() if f'"{name}"' in header or name.encode() in snapshot]
    renamed: Any = type("Renamed", (Mjoin,), {"__module__": "elsewhere"})
    again = renamed(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10)
    again.restore(snapshot)
    assert sorted(map(str, map(_leaving, again.finish()))) == sorted(map(str, map(_leaving, op.finish())))
    op.close()
    again.close()


def test_a_state_that_was_kept_is_still_read() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10)
    op.restore(kept())
    op.check()
    assert op.disk.parts.used
    assert op.queued(LEFT) == 2
    before = op.metrics.rows_out
    rows = [row for result in op.finish() for row in result.rows.to_pylist()]
    assert before + len(rows) == 200, "of ten batches, the first twenty keys"
    op.close()


def test_a_state_of_the_form_before_is_refused() -> None:
    head = json.dumps({"format": 1, "tables": {}, "join": {}}).encode()
    body = len(head).to_bytes(8, "little") + head
    with pytest.raises(SnapshotMismatch, match=r"the snapshot has format 1, this version reads 2: drain with the"):
        Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 1 << 20).restore(b"SEMISNAP" + xxhash.xxh3_64_digest(body) + body)


class _StoredPart(SpillFile):
    """A part that a saved state only names."""

    def __init__(self) -> None:
        super().__init__("a part of the state")
        self.names = ["somewhere"]


def test_a_state_that_names_stored_parts_needs_their_store() -> None:
    parts: list[_StoredPart] = []

    def store(names: list[str]) -> _StoredPart:
        parts.append(_StoredPart())
        return parts[-1]

    op = busy(part_store=store)
    snapshot = op.snapshot()
    assert parts
    again = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10)
    with pytest.raises(SnapshotMismatch, match=r"names parts of the state .*: restore it into a join with"):
        again.restore(snapshot)
    again.close()
    op.close()
    for part in parts:
        part.remove()


def test_tuples_that_stay_are_saved_in_the_same_portions() -> None:
    op = Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 20)

    def work(first: int, runs: int) -> dict[str, bytes]:
        for start in range(first, first + runs * 10, 10):
            op.offer(LEFT, batch(LEFT, list(range(start, start + 10)), start, []))
            list(op.step())
        return {name: array.tobytes() for name, array in op.saved_state().arrays.items() if name.startswith("state/")}

    before, after = work(0, 200), work(2000, 100)
    assert len(before) == 4, "one portion for 64 runs"
    assert len(after) == 5
    assert sum(after[name] == content for name, content in before.items()) == 3


@pytest.mark.parametrize("kind", [Mjoin, Xjoin, Shj])
def test_the_memory_of_a_join_comes_free_at_once(kind: type[StreamJoin]) -> None:
    """Also without the collector of cycles, which does not know how much memory hangs on one."""
    gc.disable()
    try:
        op = kind(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 1 << 20)
        old = weakref.ref(op)
        op.close()
        del op
        assert old() is None
    finally:
        gc.enable()
