"""The stream buffer keeps rows in order and never more bytes than its capacity."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import TupleTooLarge
from semistream.core.saved_state import pack_state, unpack_state
from semistream.kernels.keys.key_codes import KeyCoder, KeyCodes
from semistream.operators.window.stream_buffer import StreamBuffer

_coder = KeyCoder(["k"], [pa.int64()])


def _codes(batch: pa.RecordBatch) -> KeyCodes:
    return _coder.codes([batch.column("k")])


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=pa.schema([("k", pa.int64()), ("t", pa.string())]))


def _numbered(start: int, count: int, text_bytes: int = 3) -> pa.RecordBatch:
    return _batch([{"k": start + at, "t": "x" * text_bytes} for at in range(count)])


_rows = st.fixed_dictionaries(
    {"k": st.one_of(st.none(), st.integers(-3, 3)), "t": st.one_of(st.none(), st.text("ab", max_size=60))}
)


@given(st.integers(700, 6000), st.lists(st.tuples(st.lists(_rows, max_size=60), st.integers(0, 40)), max_size=12))
def test_rows_leave_in_order_and_bytes_stay_within_capacity(
    capacity: int, actions: list[tuple[list[dict[str, Any]], int]]
) -> None:
    buffer = StreamBuffer(capacity, _codes)
    waiting: list[dict[str, Any]] = []
    read = 0
    for rows, consumed in actions:
        taken = buffer.accept(_batch(rows))
        waiting += rows[:taken]
        assert 0 <= taken <= len(rows)
        assert taken or not rows or buffer.pending  # an empty buffer takes something
        assert buffer.nbytes <= capacity
        assert buffer.pending == len(waiting)
        peeked = buffer.peek(consumed)
        if consumed == 0 or not waiting:
            assert peeked is None
            continue
        assert peeked is not None
        batch = peeked.batch
        assert batch.to_pylist() == waiting[:consumed]
        assert peeked.code.tolist() == _codes(batch).code.tolist()
        assert peeked.number.tolist() == list(range(read, read + len(peeked)))
        valid = [row["k"] is not None for row in waiting[:consumed]]
        assert all(valid) if peeked.valid is None else peeked.valid.tolist() == valid
        assert buffer.pending == len(waiting)
        buffer.consume(batch.num_rows)
        read += batch.num_rows
        waiting = waiting[consumed:]
    rest = buffer.peek(buffer.pending)
    assert ([] if rest is None else rest.batch.to_pylist()) == waiting
    buffer.consume(buffer.pending)
    assert (buffer.nbytes, buffer.pending) == (0, 0)


def _restored(buffer: StreamBuffer) -> StreamBuffer:
    restored = StreamBuffer(buffer.capacity_bytes, _codes)
    saved = buffer.state(exact=True)
    saved.exact = True  # as the driver says of the state that this one is a part of
    restored.set_state(unpack_state(pack_state(saved)))
    return restored


@given(
    st.integers(700, 6000),
    st.lists(
        st.tuples(st.lists(_rows, max_size=60), st.integers(0, 40), st.booleans(), st.booleans(), st.booleans()),
        max_size=12,
    ),
)
def test_a_buffer_that_was_restored_goes_on_as_the_saved_one_would(
    capacity: int, actions: list[tuple[list[dict[str, Any]], int, bool, bool, bool]]
) -> None:
    original = restored = StreamBuffer(capacity, _codes)
    for rows, consumed, come_back, removes, restores in actions:
        numbers = np.arange(len(rows))[::-1] * 7 if come_back else None
        taken = [buffer.accept(_batch(rows), numbers) for buffer in {original: 0, restored: 0}]
        for buffer in {original: 0, restored: 0}:
            if removes:
                buffer.remove(np.arange(0, buffer.pending, 3))
            buffer.consume(min(consumed, buffer.pending))
        assert len(set(taken)) == 1
        left, again = original.peek(1000), restored.peek(1000)
        assert (left is None) == (again is None)
        if left is not None and again is not None:
            assert again.batch.equals(left.batch)
            assert again.number.tolist() == left.number.tolist()
            assert again.code.tolist() == left.code.tolist()
        for name in ("nbytes", "pending", "next_number", "oldest_number"):
            assert getattr(restored, name) == getattr(original, name), name
        if restores:
            original, restored = restored, _restored(restored)


def test_memory_comes_free_while_a_restored_buffer_is_being_read() -> None:
    buffer = StreamBuffer(8000, _codes)
    taken = buffer.accept(_numbered(0, 1000))
    restored = _restored(buffer)
    first = restored.peek(1)
    assert first is not None
    held = sum(column.get_total_buffer_size() for column in first.batch.columns)
    assert held < buffer.nbytes / 4, "a piece has memory of its own"
    restored.consume(taken // 2)
    assert restored.nbytes < buffer.nbytes * 0.75


def test_what_is_kept_does_not_hold_on_to_the_batch_it_was_cut_from() -> None:
    batch = _numbered(0, 10_000, 50)
    buffer = StreamBuffer(20_000, _codes)
    taken = buffer.accept(batch.slice(5000))
    assert 50 < taken < 400
    peeked = buffer.peek(taken)
    assert peeked is not None
    kept = sum(column.get_total_buffer_size() for column in peeked.batch.columns)
    assert kept <= 20_000


def test_a_full_buffer_takes_more_after_rows_were_consumed() -> None:
    buffer = StreamBuffer(4000, _codes)
    stream = _numbered(0, 1000)
    taken = buffer.accept(stream)
    assert 0 < taken < 1000
    assert buffer.accept(stream.slice(taken)) == 0
    seen: list[int] = []
    while len(seen) < 1000:
        peeked = buffer.peek(13)
        assert peeked is not None
        seen += peeked.batch.column("k").to_pylist()
        buffer.consume(len(peeked))
        taken += buffer.accept(stream.slice(taken)) if taken < 1000 else 0
    assert seen == list(range(1000))


def test_memory_comes_free_while_a_large_batch_is_being_read() -> None:
    buffer = StreamBuffer(8000, _codes)
    taken = buffer.accept(_numbered(0, 1000))
    full = buffer.nbytes
    buffer.consume(taken // 2)
    assert buffer.nbytes < full * 0.75


def test_codes_are_asked_for_the_taken_rows_only() -> None:
    asked: list[int] = []

    def codes(batch: pa.RecordBatch) -> KeyCodes:
        asked.append(batch.num_rows)
        return _codes(batch)

    buffer = StreamBuffer(4000, codes)
    assert buffer.accept(_numbered(0, 1000)) == sum(asked)


def test_a_tuple_larger_than_the_whole_buffer_is_an_error_with_the_remedy() -> None:
    buffer = StreamBuffer(2000, _codes)
    with pytest.raises(TupleTooLarge, match=r"a stream tuple of \d+ bytes does not fit .* 2000 bytes: raise memory=$"):
        buffer.accept(_numbered(0, 1, 5000))
    assert (buffer.nbytes, buffer.pending) == (0, 0)


def test_a_large_tuple_waits_outside_while_the_buffer_is_not_empty() -> None:
    buffer = StreamBuffer(3000, _codes)
    assert buffer.accept(_numbered(0, 1, 1000)) == 1
    large = _numbered(1, 1, 1800)
    assert buffer.accept(large) == 0
    buffer.consume(1)
    assert buffer.accept(large) == 1
    assert buffer.nbytes <= 3000


def test_a_large_tuple_behind_small_ones_is_left_for_the_next_offer() -> None:
    buffer = StreamBuffer(2000, _codes)
    rows = [{"k": 0, "t": ""}, {"k": 1, "t": "x" * 5000}]
    assert buffer.accept(_batch(rows)) == 1


def test_an_empty_buffer_has_nothing_to_peek() -> None:
    buffer = StreamBuffer(1000, _codes)
    assert buffer.peek(5) is None
    assert buffer.accept(_batch([])) == 0
    buffer.consume(0)
    assert np.array_equal([buffer.nbytes, buffer.pending], [0, 0])


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 30), st.data())
def test_tuples_are_removed_at_any_position(sizes: list[int], consumed: int, data: st.DataObject) -> None:
    buffer = StreamBuffer(100_000, _codes)
    waiting: list[int] = []
    for size in sizes:
        assert buffer.accept(_numbered(len(waiting), size)) == size
        waiting += range(len(waiting), len(waiting) + size)
    consumed = min(consumed, len(waiting))
    buffer.consume(consumed)
    waiting = waiting[consumed:]
    chosen = sorted(data.draw(st.sets(st.integers(0, len(waiting) - 1)))) if waiting else []
    positions = np.array(chosen, dtype=np.int64)
    parts = list(buffer.at(positions))
    assert [number for part in parts for number in part.number] == [waiting[at] for at in chosen]
    assert [key for part in parts for key in part.batch.column("k").to_pylist()] == [waiting[at] for at in chosen]
    before = buffer.nbytes
    buffer.remove(positions)
    waiting = [number for at, number in enumerate(waiting) if at not in set(chosen)]
    assert buffer.nbytes <= before
    assert buffer.pending == len(waiting)
    assert buffer.oldest_number == (waiting[0] if waiting else buffer.next_number)
    rest = buffer.peek(1000)
    assert ([] if rest is None else rest.number.tolist()) == waiting
    assert ([] if rest is None else rest.batch.column("k").to_pylist()) == waiting


def test_tuples_that_come_back_keep_their_numbers() -> None:
    buffer = StreamBuffer(4000, _codes)
    buffer.accept(_numbered(0, 3))
    assert buffer.accept(_numbered(7, 2), np.array([70, 4])) == 2
    buffer.accept(_numbered(0, 1))
    waiting = buffer.peek(10)
    assert waiting is not None
    assert waiting.number.tolist() == [0, 1, 2, 70, 4, 3]
    saved = unpack_state(pack_state(buffer.state(exact=False)))
    other = StreamBuffer(4000, _codes)
    other.set_state(saved)
    again = other.peek(10)
    assert again is not None
    assert again.number.tolist() == waiting.number.tolist()
    assert again.batch.equals(waiting.batch)
