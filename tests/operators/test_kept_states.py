"""State outlives a release: what an earlier commit wrote is read, and no class or module is named in it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import SavedState, pack_state, table_array, unpack_state
from semistream.operators.driver import StepOperator
from semistream.testing import oracle
from tests.operators.kept_states import MASTER, STREAM, begun, join_of, kept, table_in

pytestmark = pytest.mark.parametrize("name", ss.algorithm_names())


def _rest_of_the_stream(op: StepOperator, taken: int) -> list[oracle.Row]:
    results: list[pa.RecordBatch] = []
    while taken < STREAM.num_rows:
        taken += op.offer(STREAM.slice(taken))
        results += op.step()
    return oracle.rows_of([*results, *op.drain()])


def _take_over(op: StepOperator, name: str, kind: str) -> None:
    if kind == "snapshot":
        op.restore(kept(name, kind))
    else:
        op.set_exact_state(unpack_state(kept(name, kind)))


@pytest.mark.parametrize("kind", ["snapshot", "exact"])
def test_a_state_of_an_earlier_commit_is_taken_over(tmp_path: Path, name: str, kind: str) -> None:
    table = table_in(tmp_path, name)
    with join_of(name, table) as first, join_of(name, table) as op:
        taken, before = begun(first)
        _take_over(op, name, kind)
        op.check()
        assert op.pending == first.pending > 0
        answered = oracle.rows_of(before) + _rest_of_the_stream(op, taken)
    expected = oracle.join([STREAM], MASTER, [("id", "id")], "left", master_columns=["name"])
    assert oracle.multiset(answered) == oracle.multiset(expected)


@contextmanager
def _renamed_classes(op: StepOperator) -> Iterator[None]:
    kinds: list[type] = [StepOperator, type(op.join), *map(type, op.join.parts.values())]
    before = [(kind, kind.__name__, kind.__qualname__, kind.__module__) for kind in kinds]
    try:
        for kind in kinds:
            kind.__name__, kind.__qualname__, kind.__module__ = "Another", "Another", "elsewhere"
        yield
    finally:
        for kind, name, qualname, module in before:
            kind.__name__, kind.__qualname__, kind.__module__ = name, qualname, module


@pytest.mark.parametrize("kind", ["snapshot", "exact"])
def test_a_state_survives_that_classes_are_renamed(tmp_path: Path, name: str, kind: str) -> None:
    with join_of(name, table_in(tmp_path, name)) as op, _renamed_classes(op):
        _take_over(op, name, kind)
        assert op.pending > 0
    assert b"semistream." not in kept(name, kind)


def _altered(saved: SavedState, name: str, change: Callable[[pa.Table], pa.Table]) -> SavedState:
    """Return a state with one of its tables changed."""
    return SavedState(saved.header, {**saved.arrays, name: table_array(change(saved.table(name)))}, exact=saved.exact)


def _with_bad_offsets(table: pa.Table) -> pa.Table:
    """Return the table with a text that would end far behind all text."""
    notes = table.combine_chunks().column("note").chunk(0)
    offsets = np.frombuffer(notes.buffers()[1], np.int32)[: len(notes) + 1].copy()
    offsets[1] = 1 << 30
    bad = pa.Array.from_buffers(pa.string(), len(notes), [None, pa.py_buffer(offsets), notes.buffers()[2]])
    broken: pa.Table = table.combine_chunks().set_column(1, "note", bad)
    return broken


def _as_float(table: pa.Table) -> pa.Table:
    changed: pa.Table = table.set_column(0, "id", table.column(0).cast(pa.float64()))
    return changed


BREAKS: dict[str, Callable[[SavedState], SavedState]] = {
    "bad offsets": lambda saved: _altered(saved, _tuples(saved), _with_bad_offsets),
    "another type": lambda saved: _altered(saved, _tuples(saved), _as_float),
    "a column less": lambda saved: _altered(saved, _tuples(saved), lambda table: table.drop_columns(["note"])),
    "no stream": lambda saved: SavedState({key: saved.header[key] for key in ("join", "pending")}, exact=saved.exact),
    "no tuples": lambda saved: SavedState(
        saved.header, {name: array for name, array in saved.arrays.items() if name != _tuples(saved)}, exact=saved.exact
    ),
    "no join": lambda saved: SavedState({**saved.header, "join": 7}, saved.arrays, exact=saved.exact),
    "an empty header": lambda saved: SavedState({**saved.header, "stream": {}}, saved.arrays, exact=saved.exact),
}


def _tuples(saved: SavedState) -> str:
    names = ("stream/tuples", "stream/buffer/tuples")
    return next(name for name in names if name in saved.arrays and saved.table(name).num_rows)


@pytest.mark.parametrize("broken", BREAKS)
def test_a_state_that_was_tampered_with_is_refused_in_one_line(tmp_path: Path, name: str, broken: str) -> None:
    saved = BREAKS[broken](unpack_state(kept(name, "snapshot")))
    with join_of(name, table_in(tmp_path, name)) as op, pytest.raises(SnapshotMismatch, match=r"^[^\n]+$"):
        op.restore(pack_state(saved))


def test_an_exact_state_above_the_budget_is_refused(tmp_path: Path, name: str) -> None:
    saved = unpack_state(kept(name, "exact"))
    stream = saved.header["stream"]
    pieces = stream["pieces"] if "pieces" in stream else stream["buffer"]["pieces"]
    pieces[0][0] = 10**6
    with (
        join_of(name, table_in(tmp_path, name)) as op,
        pytest.raises(SnapshotMismatch, match=r"pending tuples, in .* of .*: restore one"),
    ):
        op.set_exact_state(saved)


def _holders(header: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the parts of a header that tell the size of a cache."""
    if "cache_bytes" in header:
        yield header
    for part in header.values():
        if isinstance(part, dict):
            yield from _holders(part)


def test_a_cache_above_the_budget_that_is_still_to_be_made_is_refused(tmp_path: Path, name: str) -> None:
    saved = unpack_state(kept(name, "exact"))
    cache = next(_holders(saved.header), None)
    if cache is None:
        pytest.skip(f"{name} has no cache that is made when rows come by")
    cache["cache_bytes"] = 10**12
    cache.pop("rows", None)  # it would be made when rows come by
    with join_of(name, table_in(tmp_path, name)) as op, pytest.raises(SnapshotMismatch, match="cache_bytes"):
        op.set_exact_state(saved)
