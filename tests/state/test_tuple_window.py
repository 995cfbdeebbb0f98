"""The window: shapes that fit their bytes, tuples with what is known of them."""

import gc
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from semistream.core.conditions import compare
from semistream.core.errors import SnapshotMismatch
from semistream.core.resident_memory import resident_bytes
from semistream.core.saved_state import SavedState, pack_state, unpack_state
from semistream.core.semantics import JoinSpec
from semistream.kernels.elastic import MOST_SLOTS
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.operators.window.matching import Matching, matching_for
from semistream.state.tuple_window import LiveTuples, TupleWindow, VarlenSizes, WindowShape

STREAM = pa.schema([("n", pa.int64()), ("k", pa.int64()), ("t", pa.string())])
MASTER = pa.schema([("k", pa.int64()), ("limit", pa.int64())])
BY_KEY = JoinSpec.resolve(STREAM, MASTER, "k")
BY_ORDER = JoinSpec.resolve(STREAM.remove(1), MASTER, None, condition=compare("n", "<", "limit"))


def _total(shape: WindowShape, matching: Matching, spec: JoinSpec, ordered: bool) -> int:
    return sum(shape.nbytes(matching, spec.stream_schema, ordered))


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
    window = TupleWindow(spec.stream_schema, matching, shape, ordered)
    assert (window.hash_bytes, window.queue_bytes) == shape.nbytes(matching, spec.stream_schema, ordered)


def test_slots_are_32_bit_numbers_however_much_memory_there_is() -> None:
    shape = WindowShape.fitting(matching_for(BY_KEY), STREAM, True, VarlenSizes(8, 8), 1 << 50)
    assert shape.capacity == MOST_SLOTS < 2**31


def _window(capacity: int = 4, ordered: bool = True) -> tuple[TupleWindow, Matching]:
    matching = matching_for(BY_KEY)
    return TupleWindow(BY_KEY.stream_schema, matching, WindowShape(capacity, 40), ordered), matching


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


def _saved_and_read(tuples: LiveTuples, altered: pa.Table | None = None) -> LiveTuples:
    saved = SavedState()
    saved.put_table("tuples", tuples.to_table() if altered is None else altered)
    return LiveTuples.of_state(saved, "tuples", STREAM)


def test_columns_that_no_window_writes_are_refused() -> None:
    window, matching = _window()
    batch = _batch(0, 2)
    window.insert(matching.stream_codes(batch).code, batch, np.arange(2))
    tuples = window.live_tuples()
    numbers_as_text = tuples.to_table().set_column(4, "number", pa.array(["0", "1"]))
    with pytest.raises(SnapshotMismatch, match=r"string.* in 'tuples' behind those of the stream"):
        _saved_and_read(tuples, numbers_as_text)


@pytest.mark.parametrize("ordered", [False, True])
def test_live_tuples_come_back_oldest_first_through_a_state(ordered: bool) -> None:
    window, matching = _window(ordered=ordered)
    for start in range(0, 12, 2):
        batch = _batch(start, 2)
        slots = window.insert(matching.stream_codes(batch).code, batch, np.arange(start, start + 2))
        window.matched[slots] = [True, False]
        if start:
            window.expire(2)
    live = _saved_and_read(window.live_tuples())
    assert live.batch.equals(_batch(10, 2))
    assert live.matched.tolist() == [True, False]
    assert (live.number.tolist() if live.number is not None else None) == ([10, 11] if ordered else None)
    other, _ = _window(7, ordered)
    other.put_back(live)
    assert other.live_tuples().batch.equals(live.batch)
    assert other.live_tuples().matched.tolist() == [True, False]


def test_an_empty_window_comes_back_empty() -> None:
    window, _ = _window()
    live = _saved_and_read(window.live_tuples())
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
    slots = window.remove(matching.stream_codes(batch).code[1:2])
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
    window.remove(matching.stream_codes(batch).code[1:2])
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


class WindowInUse(RuleBasedStateMachine):
    """Tuples enter and leave, in order or by key, and the window is resized; what is known of each stays with it."""

    @initialize(capacity=st.integers(1, 12), ring_bytes=st.integers(0, 60), ordered=st.booleans())
    def make(self, capacity: int, ring_bytes: int, ordered: bool) -> None:
        self.matching = matching_for(BY_KEY)
        self.ordered = ordered
        self.window = TupleWindow(
            BY_KEY.stream_schema, self.matching, WindowShape(capacity, ring_bytes), ordered, WindowShape(30, 200)
        )
        self.sent = 0
        self.live: list[tuple[dict[str, object], int, bool]] = []

    @rule(sizes=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=8))
    def insert_what_fits(self, sizes: list[tuple[int, int]]) -> None:
        rows = [{"n": self.sent + at, "k": key, "t": chr(97 + at) * size} for at, (key, size) in enumerate(sizes)]
        batch = pa.RecordBatch.from_pylist(rows, schema=STREAM)
        batch = batch.slice(0, self.window.fitting_rows(batch))
        numbers = np.arange(self.sent, self.sent + batch.num_rows)
        slots = self.window.insert(self.matching.stream_codes(batch).code, batch, numbers)
        matched = numbers % 3 == 0
        self.window.matched[slots] = matched
        self.live += zip(rows[: batch.num_rows], numbers.tolist(), matched.tolist(), strict=True)
        self.sent += batch.num_rows

    @rule(count=st.integers(0, 5))
    def expire(self, count: int) -> None:
        count = min(count, len(self.live))
        slots = self.window.expire(count)
        assert self.window.store.take_column("n", slots).to_pylist() == [row["n"] for row, _, _ in self.live[:count]]
        self.live = self.live[count:]

    @rule(key=st.integers(0, 5))
    def remove(self, key: int) -> None:
        code = self.matching.stream_codes(pa.RecordBatch.from_pylist([{"n": 0, "k": key, "t": ""}], schema=STREAM)).code
        slots = self.window.remove(code[:1])
        gone = [row["t"] for row, _, _ in self.live if row["k"] == key]
        assert self.window.store.take_column("t", slots).to_pylist() == gone
        self.live = [item for item in self.live if item[0]["k"] != key]

    @rule(capacity=st.integers(0, 30), ring_bytes=st.one_of(st.none(), st.integers(0, 200)))
    def resize(self, capacity: int, ring_bytes: int | None) -> None:
        # As small as its tuples allow, when it is asked for less.
        least = sum(len(str(row["t"])) for row, _, _ in self.live)
        ring_bytes = self.window.ring_bytes if ring_bytes is None else max(ring_bytes, least)
        shape = WindowShape(max(capacity, len(self.live), 1), ring_bytes)
        assert self.window.can_resize(shape)
        self.window.resize(shape)
        assert self.window.shape == shape
        sizes = (self.window.hash_bytes, self.window.queue_bytes)
        assert sizes == shape.nbytes(self.matching, STREAM, self.ordered)

    @rule()
    def go_on_from_its_saved_state(self) -> None:
        before, saved = self.window, unpack_state(pack_state(self.window.state()))
        shape = WindowShape(**saved.header["shape"])
        self.window = TupleWindow(STREAM, self.matching, shape, self.ordered, WindowShape(30, 200))
        self.window.set_state(saved)
        assert (self.window.shape, self.window.entered) == (before.shape, before.entered)
        count = len(before)
        assert self.window.codes.oldest(count).tolist() == before.codes.oldest(count).tolist()

    @invariant()
    def live_tuples_are_as_they_were_put(self) -> None:
        live = self.window.live_tuples()
        assert live.batch.to_pylist() == [row for row, _, _ in self.live]
        assert live.matched.tolist() == [matched for _, _, matched in self.live]
        if live.number is not None:
            assert live.number.tolist() == [number for _, number, _ in self.live]
        assert isinstance(self.window.codes, FifoMultimap)
        self.window.codes._check()


def test_a_window_loses_nothing_when_it_is_resized_between_inserts_and_removals() -> None:
    run_state_machine_as_test(WindowInUse, settings=settings(stateful_step_count=30))


def test_a_window_is_resized_only_within_what_was_reserved() -> None:
    shape, most = WindowShape(4, 40), WindowShape(8, 80)
    window = TupleWindow(BY_KEY.stream_schema, matching_for(BY_KEY), shape, True, most)
    assert window.can_resize(most)
    assert not window.can_resize(WindowShape(9, 80))
    assert not window.can_resize(WindowShape(8, 81))
    assert not _window()[0].can_resize(shape)
    assert not TupleWindow(BY_ORDER.stream_schema, matching_for(BY_ORDER), shape, True, most).can_resize(shape)


def _nearly_expired(rows: int) -> TupleWindow:
    """Return a window of ``rows`` tuples of which the newest twentieth is left."""
    matching, shape = matching_for(BY_KEY), WindowShape(rows, 20 * rows)
    window = TupleWindow(BY_KEY.stream_schema, matching, shape, True, shape)
    texts = pa.array(["x" * 20]).take(pa.array(np.zeros(rows, dtype=np.int64)))
    batch = pa.record_batch([np.arange(rows), np.arange(rows), texts], schema=STREAM)
    window.insert(matching.stream_codes(batch).code, batch, np.arange(rows))
    window.expire(rows - rows // 20)
    return window


def test_a_window_passes_its_memory_on_and_takes_none_while_it_is_resized() -> None:
    _nearly_expired(400).resize(WindowShape(20, 400))  # compiles what would be counted below
    window = _nearly_expired(400_000)
    live = window.live_tuples().batch
    taken_bytes = sum(WindowShape(400_000, 8_000_000).nbytes(matching_for(BY_KEY), STREAM, True))
    gc.collect()
    full_bytes = resident_bytes()
    tracemalloc.start()
    window.resize(WindowShape(20_000, 400_000))
    assert tracemalloc.get_traced_memory()[1] < 3 * 4 * 20_000 + 200_000, "the moves and the slots with text"
    tracemalloc.stop()
    given_back = taken_bytes - window.hash_bytes - window.queue_bytes
    assert full_bytes - resident_bytes() > 0.9 * given_back
    assert window.live_tuples().batch.equals(live)
    assert live.column(0).to_pylist() == list(range(380_000, 400_000))
