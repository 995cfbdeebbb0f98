"""The form in which state is kept: it comes back as it was, and what is not such a state is refused in one line."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as np_st

from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import FORMAT, SavedState, pack_state, unpack_state

_types = st.sampled_from(["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"])
_arrays = np_st.arrays(_types, np_st.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4))
_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**128), 2**128) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_TABLE = pa.concat_tables([pa.table({"n": [1, None], "t": ["a", ""]}), pa.table({"n": [3], "t": ["c"]})])


@st.composite
def _states(draw: st.DrawFn, depth: int = 2) -> SavedState:
    saved = SavedState({f"value {at}": value for at, value in enumerate(draw(st.lists(_plain, max_size=2)))})
    for at, array in enumerate(draw(st.lists(_arrays, max_size=3))):
        saved.put(f"array {at}", array)
    if draw(st.booleans()):
        saved.put_table("table", _TABLE)
    for at, part in enumerate(draw(st.lists(_states(depth - 1), max_size=2)) if depth else []):
        saved.put_part(f"part {at}", part)
    return saved


def _assert_equal(saved: SavedState, again: SavedState) -> None:
    assert again.header == saved.header
    assert list(again.arrays) == list(saved.arrays)
    for name, array in saved.arrays.items():
        found = again.array(name)
        assert found.dtype == array.dtype
        assert found.flags.writeable
        np.testing.assert_array_equal(found, array)
        out = np.empty_like(array)
        again.fill(name, out)
        np.testing.assert_array_equal(out, array)
    if "table" in saved.arrays:
        assert [batch.num_rows for batch in again.table("table").to_batches()] == [2, 1]
        assert again.table("table").equals(_TABLE)
    for name in saved.header:
        if name.startswith("part"):
            _assert_equal(saved.part(name), again.part(name))


@given(saved=_states(), exact=st.booleans())
def test_a_state_comes_back_as_it_was(saved: SavedState, exact: bool) -> None:
    saved.exact = exact
    again = unpack_state(pack_state(saved))
    assert again.exact == exact
    _assert_equal(saved, again)


def test_a_part_knows_its_own_arrays_and_no_others() -> None:
    inner, outer = SavedState(), SavedState()
    inner.put("codes", np.arange(3))
    outer.put("codes", np.arange(5))
    outer.put_part("window", inner)
    part = unpack_state(pack_state(outer)).part("window")
    assert list(part.arrays) == ["codes"]
    assert len(part.arrays) == 1
    assert part.array("codes").size == 3


def test_arrays_that_do_not_lie_in_one_piece_come_back() -> None:
    saved = SavedState()
    saved.put("columns", np.arange(12).reshape(3, 4)[:, ::2])
    assert unpack_state(pack_state(saved)).array("columns").tolist() == [[0, 2], [4, 6], [8, 10]]


def test_what_the_caller_got_is_its_own() -> None:
    saved = SavedState()
    saved.put("n", np.arange(3))
    again = unpack_state(pack_state(saved))
    again.array("n")[:] = 7
    assert again.array("n").tolist() == [0, 1, 2]


@pytest.mark.parametrize("dtype", [object, "U3", "datetime64[s]", "complex128", [("a", "i4")]])
def test_only_numbers_are_kept(dtype: Any) -> None:
    with pytest.raises(AssertionError, match="type"):
        SavedState().put("n", np.zeros(2, dtype=dtype))


def test_nothing_is_kept_twice() -> None:
    saved = SavedState({"window": 1})
    saved.put("n", np.arange(3))
    with pytest.raises(AssertionError, match="twice"):
        saved.put("n", np.arange(3))
    with pytest.raises(AssertionError, match="twice"):
        saved.put_part("window", SavedState())


def _one_line(content: bytes) -> str:
    with pytest.raises(SnapshotMismatch) as caught:
        unpack_state(content)
    message = str(caught.value)
    assert "\n" not in message
    assert ": " in message
    return message


def _small() -> SavedState:
    saved = SavedState({"position": 3})
    saved.put("n", np.arange(4))
    saved.put_table("table", _TABLE)
    return saved


@given(share=st.floats(0, 1, exclude_max=True))
def test_a_truncated_state_is_refused(share: float) -> None:
    content = pack_state(_small())
    assert "not a whole semistream snapshot" in _one_line(content[: int(len(content) * share)])


@given(position=st.integers(0), bit=st.integers(0, 7))
def test_an_altered_state_is_refused(position: int, bit: int) -> None:
    content = bytearray(pack_state(_small()))
    content[position % len(content)] ^= 1 << bit
    assert "not a whole semistream snapshot" in _one_line(bytes(content))


def _forged(head: Any, body: bytes = b"") -> bytes:
    """Return bytes whose checksum is right, and whose content is not."""
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    content = len(text).to_bytes(8, "little") + text + body
    return b"SEMISNAP" + xxhash.xxh3_64_digest(content) + content


def _head(**changed: Any) -> dict[str, Any]:
    return {"format": FORMAT, "exact": False, "header": {}, "arrays": [], **changed}


def test_another_format_is_refused_with_what_to_do() -> None:
    assert "format 1, this version reads" in _one_line(_forged({"format": 1, "tables": {}, "operator": "meshjoin"}))
    assert "drain with the version that wrote it" in _one_line(_forged(_head(format=FORMAT + 1)))
    _one_line(_forged(_head(format="two\nlines")))


@pytest.mark.parametrize(
    "arrays",
    [
        [["n", "|O", [1]]],
        [["n", "<M8[s]", [1]]],
        [["n", "<U1", [2]]],
        [["n", "i8,i8", [1]]],
        [["n", "(,i4", [1]]],
        [["n", "no\ntype", [1]]],
        [["n", None, [1]]],
        [["n", ["<i8"], [1]]],
        [["n", "<i8", [-1]]],
        [["n", "<i8", [-1, -1]]],
        [["n", "<i8", [1.0]]],
        [["n", "<i8", [True]]],
        [["n", "<i8", None]],
        [["n", "<i8", [2]]],
        [["n", "<i8", [2**40]]],
        [["n", "<i8", [2**64]]],
        [["n", "<i8", [0, 2**64]]],
        [["n", "<i8", [2**32, 2**32]]],
        [["n", "<i8", [1] * 100]],
        [["n", "<i8", []], ["n", "<i8", [0]]],
        [["n", "<i8"]],
        [[["n"], "<i8", [1]]],
        [],
        [7],
        7,
        None,
        {"n": "<i8"},
    ],
)
def test_arrays_that_cannot_be_are_refused(arrays: Any) -> None:
    assert "cannot be read" in _one_line(_forged(_head(arrays=arrays), bytes(8)))


@pytest.mark.parametrize(
    "head",
    [b"", b"{", b"\xff\xfe{", b"[" * 100_000, b"null", b"[2]", b'"format"', b"{}", b"2", b"1" * 5000],
)
def test_a_header_that_is_none_is_refused(head: bytes) -> None:
    assert "cannot be read" in _one_line(_forged(head))


def test_a_header_of_another_kind_is_refused() -> None:
    for name in ("format", "exact", "header", "arrays"):
        _one_line(_forged({other: value for other, value in _head().items() if other != name}))
    _one_line(_forged(_head(header=[])))
    _one_line(_forged(_head(exact=1)))
    _one_line(b"SEMISNAP" + xxhash.xxh3_64_digest(b""))
    _one_line(b"SEMISNAP" + xxhash.xxh3_64_digest(b"\xff" * 8) + b"\xff" * 8)


def _fill(saved: SavedState, out: npt.NDArray[Any]) -> None:
    saved.fill("n", out)


@pytest.mark.parametrize(
    ("ask", "part_of_message"),
    [
        (lambda saved: saved.array("m"), "no array 'm'"),
        (lambda saved: saved.table("m"), "no array 'm'"),
        (lambda saved: saved.table("n"), "no table in 'n'"),
        (lambda saved: saved.part("window"), "no part 'window'"),
        (lambda saved: saved.part("position"), "no part 'position'"),
        (lambda saved: _fill(saved, np.empty(3, dtype=np.int64)), "same memory"),
        (lambda saved: _fill(saved, np.empty((4, 1), dtype=np.int64)), "same memory"),
        (lambda saved: _fill(saved, np.empty(4, dtype=np.int32)), "same memory"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(ask: Callable[[SavedState], object], part_of_message: str) -> None:
    with pytest.raises(SnapshotMismatch, match=part_of_message) as caught:
        ask(unpack_state(pack_state(_small())))
    assert "\n" not in str(caught.value)


def test_columns_are_declared_as_the_join_declares_them() -> None:
    # Arrow does not put batches together that say otherwise of NULLs.
    declared = pa.schema([pa.field("id", pa.int64(), nullable=False), ("note", pa.string())])
    rows = pa.table({"id": [1], "note": ["x"], "": [7]}, schema=declared.append(pa.field("", pa.int64())))
    saved = SavedState()
    saved.put_table("tuples", rows)
    ours = pa.schema([("id", pa.int64()), pa.field("note", pa.string(), nullable=False)])
    table = saved.table("tuples", ours)
    assert table.schema.field("id").nullable
    assert not table.schema.field("note").nullable
    assert table.to_pylist() == rows.to_pylist()
