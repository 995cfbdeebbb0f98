"""The window: shapes that fit their bytes, tuples with what is known of them."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semistream.core.conditions import compare
from semistream.core.semantics import JoinSpec
from semistream.operators.matching import Matching, matching_for
from semistream.operators.stream_window import LiveTuples, StreamWindow, VarlenSizes, WindowShape

STREAM = pa.schema([("n", pa.int64()), ("k", pa.int64()), ("t", pa.string())])
MASTER = pa.schema([("k", pa.int64()), ("limit", pa.int64())])
BY_KEY = JoinSpec.resolve(STREAM, MASTER, "k")
BY_ORDER = JoinSpec.resolve(STREAM.remove(1), MASTER, None, condition=compare("n", "<", "limit"))


def _total(shape: WindowShape, matching: Matching, spec: JoinSpec, ordered: bool) -> int:
    return sum(shape.nbytes(matching, spec.stream_schema, ordered))


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from([BY_KEY, BY_ORDER]),
    st.booleans(),
    st.floats(0, 100),
    st.integers(0, 5000),
    st.integers(-10, 300_000),
)
def test_the_fitting_shape_is_the_largest_and_its_window_takes_what_it_says(
    spec: JoinSpec, ordered: bool, mean: float, largest: int, window_bytes: int
) -> None:
    matching = matching_for(spec)
    varlen = VarlenSizes(mean, max(largest, int(mean)))
    shape = WindowShape.fitting(matching, spec.stream_schema, ordered, varlen, window_bytes)
    if shape.capacity == 0:
        return
    assert _total(shape, matching, spec, ordered) <= window_bytes
    larger = WindowShape(shape.capacity + 1, shape.ring_bytes + int(mean * 1.25) + 1)
    assert _total(larger, matching, spec, ordered) > window_bytes
    window = StreamWindow(spec, matching, shape, ordered)
    assert (window.hash_bytes, window.queue_bytes) == shape.nbytes(matching, spec.stream_schema, ordered)


def _window(capacity: int = 4, ordered: bool = True) -> tuple[StreamWindow, Matching]:
    matching = matching_for(BY_KEY)
    return StreamWindow(BY_KEY, matching, WindowShape(capacity, 40), ordered), matching


def _batch(start: int, count: int) -> pa.RecordBatch:
    numbers = range(start, start + count)
    return pa.record_batch(
        [
            pa.array(numbers, pa.int64()),
            pa.array([n % 3 for n in numbers], pa.int64()),
            pa.array(["x" * (n % 4) for n in numbers]),
        ],
        schema=STREAM,
    )


@pytest.mark.parametrize("ordered", [False, True])
def test_live_tuples_come_back_oldest_first_through_a_table(ordered: bool) -> None:
    window, matching = _window(ordered=ordered)
    for start in range(0, 12, 2):
        batch = _batch(start, 2)
        slots = window.insert(matching.stream_codes(batch).code, batch, np.arange(start, start + 2))
        window.matched[slots] = [True, False]
        if start:
            window.expire(2)
    live = LiveTuples.from_table(window.live_tuples().to_table(), STREAM)
    assert live.batch.equals(_batch(10, 2))
    assert live.matched.tolist() == [True, False]
    assert (live.number.tolist() if live.number is not None else None) == ([10, 11] if ordered else None)
    other, _ = _window(7, ordered)
    other.put_back(live)
    assert other.live_tuples().batch.equals(live.batch)
    assert other.live_tuples().matched.tolist() == [True, False]


def test_an_empty_window_comes_back_empty() -> None:
    window, _ = _window()
    live = LiveTuples.from_table(window.live_tuples().to_table(), STREAM)
    assert live.batch.num_rows == 0
    other, _ = _window()
    other.put_back(live)
    assert len(other) == 0


def test_rows_fit_while_there_are_slots_and_text_space() -> None:
    window, matching = _window(capacity=4)
    texts = pa.record_batch([[0, 1, 2], [0, 1, 2], ["x" * 30, "y" * 10, "z"]], schema=STREAM)
    assert window.fitting_rows(_batch(0, 9)) == 4
    assert window.fitting_rows(texts) == 2
    window.insert(matching.stream_codes(texts.slice(0, 2)).code, texts.slice(0, 2), np.arange(2))
    assert window.fitting_rows(texts.slice(2)) == 0
    window.expire(1)
    assert window.fitting_rows(texts.slice(2)) == 1


def _texts(keys: list[int], sizes: list[int]) -> pa.RecordBatch:
    texts = [chr(ord("a") + key) * size for key, size in zip(keys, sizes, strict=True)]
    return pa.record_batch([pa.array(keys, pa.int64()), pa.array(keys, pa.int64()), texts], schema=STREAM)


def test_text_that_left_the_middle_makes_room_when_it_is_a_fair_share_of_the_ring() -> None:
    window, matching = _window(capacity=10)  # and 40 bytes of text
    batch = _texts([0, 1, 2, 1, 3], [8, 5, 10, 5, 12])
    window.insert(matching.stream_codes(batch).code, batch, np.arange(5))
    new = _texts([4, 5], [6, 4])
    assert window.fitting_rows(new) == 0
    kept = window.live_tuples().batch
    slots = window.remove(int(matching.stream_codes(batch).code[1]))
    assert window.store.take_column("t", slots).to_pylist() == ["bbbbb", "bbbbb"]
    assert window.fitting_rows(new) == 2, "10 of 40 bytes are a quarter"
    window.insert(matching.stream_codes(new).code, new, np.arange(5, 7))
    expected = [row for row in kept.to_pylist() if row["k"] != 1] + new.to_pylist()
    assert window.live_tuples().batch.to_pylist() == expected
    window.expire(1)
    assert window.fitting_rows(_texts([6, 7], [8, 1])) == 1, "the ring goes on behind the oldest tuple"


def test_a_small_gap_waits_for_the_oldest_tuple_to_leave() -> None:
    window, matching = _window(capacity=10)
    batch = _texts([0, 1, 2], [20, 9, 11])
    window.insert(matching.stream_codes(batch).code, batch, np.arange(3))
    window.remove(int(matching.stream_codes(batch).code[1]))
    assert window.fitting_rows(_texts([4], [1])) == 0
    window.expire(1)
    assert window.fitting_rows(_texts([4, 5], [29, 1])) == 1


def test_a_new_tuple_in_a_reused_slot_is_not_matched_yet() -> None:
    window, matching = _window(capacity=1)
    for start in range(3):
        batch = _batch(start, 1)
        slots = window.insert(matching.stream_codes(batch).code, batch, np.array([start]))
        assert window.matched[slots].tolist() == [False]
        window.matched[slots] = True
        assert window.expire(1).tolist() == slots.tolist()
        assert window.number[slots].tolist() == [start]


def test_measured_sizes_are_mean_and_largest() -> None:
    assert VarlenSizes.of(_batch(0, 4)) == VarlenSizes(1.5, 3)
