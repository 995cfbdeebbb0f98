"""Tuples on their way from the stream buffer into the window, and changes of both shares in flight."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.conditions import compare
from semistream.core.errors import BudgetTooSmall, InvalidArgument, TupleTooLarge
from semistream.core.metrics import Metrics
from semistream.core.saved_state import SavedState, pack_state, unpack_state
from semistream.core.semantics import JoinSpec
from semistream.operators.phases.admission import Admission
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import matching_for
from semistream.operators.window.stream_side import StreamSide

STREAM = pa.schema([("k", pa.int64()), ("t", pa.string())])
SPEC = JoinSpec.resolve(STREAM, pa.schema([("k", pa.int64()), ("v", pa.int64())]), "k", "anti")
Rows = list[dict[str, Any]]


def _stream(
    buffer_bytes: int = 20_000,
    window_bytes: int = 20_000,
    max_tuples: int | None = None,
    ordered: bool = True,
    max_window_bytes: int | None = None,
) -> StreamSide:
    return StreamSide(
        SPEC,
        matching_for(SPEC),
        ordered=ordered,
        buffer_bytes=buffer_bytes,
        window_bytes=window_bytes,
        max_tuples=max_tuples,
        max_window_bytes=max_window_bytes,
    )


def _batch(rows: Rows) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=STREAM)


def _rows(count: int, text_bytes: int = 5, start: int = 0) -> Rows:
    return [{"k": start + at, "t": "x" * text_bytes} for at in range(count)]


def _window_rows(stream: StreamSide) -> Rows:
    rows: Rows = stream.window.live_tuples().batch.to_pylist()
    return rows


def _admit(stream: StreamSide, count: int) -> tuple[int, Rows]:
    """Let tuples enter and return how many did, and what was answered instead."""
    delivery = Delivery(SPEC, 1 << 20, ordered=False)
    reading = Admission(stream, matching_for(SPEC), delivery, Metrics()).read(count)
    set_aside: Rows = []
    while True:
        try:
            set_aside += next(reading).to_pylist()
        except StopIteration as end:
            return end.value, set_aside


def _drained(stream: StreamSide, portion: int = 7) -> Rows:
    """Move everything through the window; every round must make progress."""
    rows: Rows = []
    while stream.pending:
        before = stream.pending
        _admit(stream, portion)
        rows += _window_rows(stream)
        stream.window.expire(len(stream.window))
        assert stream.pending < before, "pending tuples never leave"
    return rows


def test_tuples_move_into_the_window_in_order_and_null_keys_are_set_aside() -> None:
    stream = _stream()
    rows = [{"k": None if at % 3 == 1 else at, "t": str(at)} for at in range(9)]
    assert stream.accept(_batch(rows)) == 9
    entered, set_aside = _admit(stream, 4)
    assert entered == 4
    assert set_aside == [rows[1], rows[4]]
    assert _window_rows(stream) == [rows[0], rows[2], rows[3], rows[5]]
    assert (stream.pending, stream.tuples_in_window) == (7, 4)
    assert stream.oldest_pending() == 0
    stream.window.expire(1)
    assert stream.oldest_pending() == 2
    stream.window.expire(3)
    assert stream.oldest_pending() == 6


def test_nothing_is_allocated_before_the_first_tuple() -> None:
    stream = _stream()
    assert stream.capacity_tuples == 0
    assert stream.components() == {"stream buffer": 0, "H_S": 0, "queue": 0}
    assert stream.pending == stream.oldest_pending() == 0
    assert _admit(stream, 5) == (0, [])


@given(
    st.integers(1500, 20_000),
    st.integers(3000, 30_000),
    st.lists(st.lists(st.integers(0, 150), min_size=1, max_size=60), min_size=1, max_size=8),
    st.integers(1, 50),
    st.integers(0, 60),
)
def test_shares_are_kept_and_nothing_is_lost_or_stuck(
    buffer_bytes: int, window_bytes: int, batches: list[list[int]], portion: int, expired: int
) -> None:
    stream, seen, sent = _stream(buffer_bytes, window_bytes), list[int](), 0
    for sizes in batches:
        rows = [{"k": sent + at, "t": "x" * size} for at, size in enumerate(sizes)]
        taken = stream.accept(_batch(rows))
        while taken < len(rows):
            _admit(stream, portion)
            seen += [row["k"] for row in _window_rows(stream)][: expired + 1]
            stream.window.expire(min(expired + 1, len(stream.window)))
            taken += stream.accept(_batch(rows[taken:]))
        sent += len(rows)
        assert stream.components()["stream buffer"] <= buffer_bytes
        assert _window_bytes(stream) <= window_bytes
    live = _window_rows(stream)
    seen += [row["k"] for row in live]
    stream.window.expire(len(live))
    seen += [row["k"] for row in _drained(stream, portion)]
    assert seen == list(range(sent))


@given(
    st.integers(1500, 9000),
    st.lists(
        st.tuples(st.lists(st.integers(0, 300), min_size=1, max_size=40), st.integers(0, 20), st.integers(0, 20)),
        min_size=1,
        max_size=8,
    ),
)
def test_state_fits_a_stream_of_the_same_shares(buffer_bytes: int, actions: list[tuple[list[int], int, int]]) -> None:
    stream, sent = _stream(buffer_bytes), 0
    for sizes, admitted, expired in actions:
        taken = stream.accept(_batch([{"k": sent + at, "t": "x" * size} for at, size in enumerate(sizes)]))
        sent += taken
        _admit(stream, admitted)
        stream.window.expire(min(expired, len(stream.window)))
        other = _stream(buffer_bytes)
        other.set_state(taken_out(stream))
        assert other.pending == stream.pending
        assert other.oldest_pending() == stream.oldest_pending()
        assert _window_rows(other) == _window_rows(stream)
        assert other.components()["stream buffer"] <= buffer_bytes
        stream = other
    live = _window_rows(stream)
    stream.window.expire(len(live))
    keys = [row["k"] for row in live + _drained(stream)]
    assert keys == list(range(sent - len(keys), sent))


def test_a_stream_that_never_saw_a_tuple_has_a_state_too() -> None:
    other = _stream()
    other.set_state(taken_out(_stream()))
    assert other.pending == 0


def test_state_that_does_not_fit_is_an_error_with_the_remedy() -> None:
    stream = _stream()
    stream.accept(_batch(_rows(150)))
    _admit(stream, 150)
    with pytest.raises(BudgetTooSmall, match=r"150 tuples .*: give at least the memory it was taken with"):
        _stream(window_bytes=5000).set_state(taken_out(stream))
    waiting = _stream()
    waiting.accept(_batch(_rows(150)))
    with pytest.raises(BudgetTooSmall, match=r"150 tuples .*: give at least the memory it was taken with"):
        _stream(buffer_bytes=2000).set_state(taken_out(waiting))


# --- text that outgrows what was measured -------------------------------------------------------------------------


def test_a_text_larger_than_the_ring_waits_until_the_window_is_empty_and_is_then_taken() -> None:
    stream = _stream()
    assert stream.accept(_batch(_rows(10, text_bytes=1))) == 10
    large = stream.window.ring_bytes + 1
    batch = _batch([*_rows(2, 1, start=10), *_rows(1, large, start=12), *_rows(1, 1, start=13)])
    assert stream.accept(batch) == 2
    assert stream.accept(batch.slice(2)) == 0
    assert len(_drained(stream)) == 12
    assert stream.accept(batch.slice(2)) == 2
    assert [row["k"] for row in _drained(stream)] == [12, 13]
    assert _window_bytes(stream) <= 20_000


def test_a_text_larger_than_the_window_is_an_error_and_later_tuples_are_welcome() -> None:
    stream = _stream()
    for rows in (_rows(1, 30_000), [*_rows(3), *_rows(1, 30_000)]):
        with pytest.raises(TupleTooLarge, match=r"30000 bytes of text does not fit the 20000 bytes .*: raise memory=$"):
            stream.accept(_batch(rows))
    assert stream.accept(_batch(_rows(3))) == 3
    assert len(_drained(stream)) == 3
    with pytest.raises(TupleTooLarge):
        stream.accept(_batch(_rows(1, 30_000)))
    assert stream.accept(_batch(_rows(3))) == 3


# --- resize -------------------------------------------------------------------------------------------------------


# How far a window can be resized in place: not at all, as far as is asked for, or less than that.
in_place = pytest.mark.parametrize("max_window_bytes", [None, 40_000, 21_000])


def _filled(max_window_bytes: int | None) -> StreamSide:
    stream = _stream(max_window_bytes=max_window_bytes)
    stream.accept(_batch(_rows(60)))
    _admit(stream, 40)
    stream.window.matched[stream.window.codes.oldest(2)] = True
    return stream


def taken_out(stream: StreamSide) -> SavedState:
    return unpack_state(pack_state(stream.state(exact=False)))


def _window_bytes(stream: StreamSide) -> int:
    components = stream.components()
    return components["H_S"] + components["queue"]


def _contents(stream: StreamSide) -> tuple[Any, ...]:
    saved = stream.state(exact=False)
    arrays = {name: array.tolist() for name, array in saved.arrays.items()}
    return saved.header, arrays, stream.capacity_tuples


@in_place
@pytest.mark.parametrize(
    ("buffer_bytes", "window_bytes", "max_tuples"),
    [(40_000, 40_000, None), (20_000, 15_000, None), (10_000, 20_000, 40), (20_000, 20_000, 1000), (20_000, 20_000, 3)],
)
def test_resize_keeps_every_tuple_and_what_is_known_of_it(
    buffer_bytes: int, window_bytes: int, max_tuples: int | None, max_window_bytes: int | None
) -> None:
    stream = _filled(max_window_bytes)
    before, window, shape = _contents(stream), stream.window, stream.window.shape
    stream.resize(window_bytes, buffer_bytes=buffer_bytes, max_tuples=max_tuples)
    assert _contents(stream)[:2] == before[:2]
    assert _window_bytes(stream) <= window_bytes
    assert max_tuples is None or stream.capacity_tuples <= max(max_tuples, 40)
    has_to_be = window_bytes > (max_window_bytes or 0) and stream.window.shape != shape
    assert (stream.window is not window) == has_to_be, "copied only where it has to be"
    rows = _window_rows(stream)
    stream.window.expire(len(rows))
    assert [row["k"] for row in rows + _drained(stream)] == list(range(60))


@in_place
@pytest.mark.parametrize(
    ("buffer_bytes", "window_bytes", "max_tuples", "message"),
    [
        (100, 20_000, None, "20 tuples wait in the stream buffer, more than 100 bytes hold: step before"),
        (20_000, 2000, None, r"40 tuples are pending and the window would hold \d+: step or drain"),
    ],
)
def test_a_resize_that_does_not_fit_is_an_error_and_changes_nothing(
    buffer_bytes: int, window_bytes: int, max_tuples: int | None, message: str, max_window_bytes: int | None
) -> None:
    stream = _filled(max_window_bytes)
    before = _contents(stream)
    with pytest.raises(InvalidArgument, match=message):
        stream.resize(window_bytes, buffer_bytes=buffer_bytes, max_tuples=max_tuples)
    assert _contents(stream) == before
    rows = _window_rows(stream)
    stream.window.expire(len(rows))
    assert len(rows + _drained(stream)) == 60


def test_a_resize_before_the_first_tuple_takes_effect_with_it() -> None:
    stream = _stream()
    stream.resize(4000, buffer_bytes=5000, max_tuples=11)
    stream.accept(_batch(_rows(60)))
    assert stream.capacity_tuples == 11


def _after_texts_grew(in_window: int, max_window_bytes: int | None) -> StreamSide:
    """Shaped by texts of 5 bytes; now the window holds texts of 100 bytes and the buffer one of 300."""
    stream = _stream(max_window_bytes=max_window_bytes)
    stream.accept(_batch(_rows(100, 5)))
    _admit(stream, 100)
    stream.window.expire(100)
    stream.accept(_batch([*_rows(in_window, 100), *_rows(1, 300)]))
    _admit(stream, in_window)
    assert (stream.tuples_in_window, stream.pending) == (in_window, in_window + 1)
    return stream


@in_place
@pytest.mark.parametrize("in_window", [1, 5])
@pytest.mark.parametrize("max_tuples", [200, 100, 60, 40, 30, 20, 10])
def test_a_resize_after_texts_grew_is_refused_or_loses_and_blocks_nothing(
    max_tuples: int, in_window: int, max_window_bytes: int | None
) -> None:
    stream = _after_texts_grew(in_window, max_window_bytes)
    before = _contents(stream)
    try:
        stream.resize(20_000, buffer_bytes=20_000, max_tuples=max_tuples)
    except InvalidArgument:
        assert _contents(stream) == before
    assert _contents(stream)[:2] == before[:2]
    rows = _window_rows(stream)
    stream.window.expire(len(rows))
    assert len(rows + _drained(stream)) == in_window + 1


def test_a_window_in_order_of_values_is_resized_by_copying() -> None:
    condition = compare("k", "<", "limit")
    spec = JoinSpec.resolve(STREAM, pa.schema([("limit", pa.int64())]), None, condition=condition)
    stream = StreamSide(
        spec,
        matching_for(spec),
        ordered=True,
        buffer_bytes=20_000,
        window_bytes=20_000,
        max_tuples=None,
        max_window_bytes=40_000,
    )
    stream.accept(_batch(_rows(60)))
    _admit(stream, 40)
    before = _contents(stream)
    stream.resize(30_000, buffer_bytes=20_000, max_tuples=None)
    assert _contents(stream)[:2] == before[:2]
    assert stream.capacity_tuples > before[2]


def test_an_empty_window_that_would_hold_nothing_is_refused() -> None:
    stream = _stream()
    stream.accept(_batch(_rows(1)))
    _admit(stream, 1)
    stream.window.expire(1)
    with pytest.raises(InvalidArgument, match="0 tuples are pending and the window would hold 0"):
        stream.resize(10, buffer_bytes=20_000, max_tuples=None)
