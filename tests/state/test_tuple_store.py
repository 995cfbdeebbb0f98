"""Tuples put into slots come out as they went in."""

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from semistream.core.errors import UnsupportedType
from semistream.core.saved_state import pack_state, unpack_state
from semistream.kernels.elastic import Moves
from semistream.state.tuple_store import TupleStore
from semistream.state.varlen_columns import varlen_bytes

_UTC = dt.timezone.utc
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, 127]),
    (pa.uint8(), [0, 255]),
    (pa.int16(), [-32768, 5]),
    (pa.uint16(), [65535, 5]),
    (pa.int32(), [-(2**31), 5]),
    (pa.uint32(), [2**32 - 1, 5]),
    (pa.int64(), [-(2**63), 2**63 - 1]),
    (pa.uint64(), [2**64 - 1, 0]),
    (pa.float16(), [0.5, -2.0]),
    (pa.float32(), [0.5, float("inf")]),
    (pa.float64(), [0.1, -0.0]),
    (pa.bool_(), [True, False]),
    (pa.date32(), [dt.date(1969, 1, 1), dt.date(2024, 2, 29)]),
    (pa.date64(), [dt.date(1969, 1, 1), dt.date(2024, 2, 29)]),
    (pa.time32("s"), [dt.time(1, 2, 3), dt.time(0)]),
    (pa.time64("us"), [dt.time(1, 2, 3, 4), dt.time(0)]),
    (pa.timestamp("us"), [dt.datetime(1969, 1, 1), dt.datetime(2024, 1, 1)]),
    (pa.timestamp("ms", "UTC"), [dt.datetime(1969, 1, 1, tzinfo=_UTC), dt.datetime(2024, 1, 1, tzinfo=_UTC)]),
    (pa.duration("us"), [dt.timedelta(-1), dt.timedelta(1)]),
    (pa.decimal128(10, 2), [Decimal("-1.25"), Decimal("99999999.99")]),
    (pa.decimal128(38, 0), [Decimal(10**37), Decimal(-1)]),
    (pa.decimal256(60, 1), [Decimal(10**50), Decimal("-0.5")]),
    (pa.binary(3), [b"abc", b"\x00\xff\x00"]),
    (pa.binary(4), [b"abcd", b"\x00\xff\x00\x01"]),
    (pa.string(), ["", "äöü" * 5]),
    (pa.large_string(), ["x", "y" * 20]),
    (pa.binary(), [b"", b"\x00" * 9]),
    (pa.large_binary(), [b"q", b"\xff" * 20]),
    (pa.null(), [None, None]),
]
ALL_TYPES = pa.schema([(f"c{index}", dtype) for index, (dtype, _) in enumerate(VALUES)])
RING_BYTES = 4096


def _slots(*slots: int) -> npt.NDArray[np.int32]:
    return np.array(slots, dtype=np.int32)


def _taken(store: TupleStore, slots: npt.NDArray[np.int32]) -> pa.RecordBatch:
    batch = pa.RecordBatch.from_arrays(store.take(slots), schema=store.schema)
    batch.validate(full=True)
    return batch


@pytest.mark.parametrize(("dtype", "values"), VALUES, ids=[str(dtype) for dtype, _ in VALUES])
@pytest.mark.parametrize("nulls", ["none", "some", "all"])
@pytest.mark.parametrize("start", [0, 3])
def test_values_of_every_type_come_back(dtype: pa.DataType, values: list[Any], nulls: str, start: int) -> None:
    rows = {"none": values * 5, "some": [None, *values, None] * 3, "all": [None] * 9}[nulls]
    batch = pa.record_batch([pa.array(rows, dtype)], names=["c"]).slice(start)
    store = TupleStore(batch.schema, 20, RING_BYTES)
    slots = np.random.default_rng(0).permutation(20)[: batch.num_rows].astype(np.int32)
    store.put(slots, batch)
    assert _taken(store, slots).equals(batch)
    assert _taken(store, slots[::-1].copy()).to_pylist() == batch.to_pylist()[::-1]
    assert store.take_column("c", slots[:2]).equals(batch.column(0).slice(0, 2))
    assert _taken(store, _slots()).num_rows == 0


def test_all_types_together_come_back_and_nulls_do_not_stay_in_reused_slots() -> None:
    rows = [
        pa.RecordBatch.from_arrays(
            [pa.array([values[at] if at is not None else None for at in chosen], dtype) for dtype, values in VALUES],
            schema=ALL_TYPES,
        )
        for chosen in ((0, None), (1, 0), (None, 1))
    ]
    store = TupleStore(ALL_TYPES, 3, RING_BYTES)
    for batch in [*rows, *rows]:
        saved = unpack_state(pack_state(store.state()))
        store = TupleStore(ALL_TYPES, 3, RING_BYTES)
        store.set_state(saved, _slots())
        store.put(_slots(2, 0), batch)
        assert _taken(store, _slots(2, 0)).equals(batch)
        store.free(_slots(2, 0))
        store.reclaim(None)


def test_columns_declared_not_null_need_no_null_bits() -> None:
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.bool_(), nullable=False)])
    assert TupleStore.fixed_bytes_per_tuple(schema) == 9
    assert TupleStore.fixed_bytes_per_tuple(pa.schema([("a", pa.int64()), ("b", pa.bool_())])) == 10


@pytest.mark.parametrize(
    "schema", [ALL_TYPES, *(pa.schema([("c", dtype)]) for dtype, _ in VALUES)], ids=lambda schema: str(len(schema))
)
@pytest.mark.parametrize("capacity", [1, 100])
def test_reported_bytes_are_the_declared_bytes_per_tuple_and_the_ring(schema: pa.Schema, capacity: int) -> None:
    store = TupleStore(schema, capacity, 777)
    ring_bytes = 777 if TupleStore.num_varlen_columns(schema) else 0
    assert store.ring_bytes == ring_bytes
    assert store.nbytes == capacity * TupleStore.fixed_bytes_per_tuple(schema) + ring_bytes


@pytest.mark.parametrize(
    "dtype",
    [
        pa.list_(pa.int64()),
        pa.struct([("x", pa.int64())]),
        pa.map_(pa.string(), pa.int64()),
        pa.dictionary(pa.int32(), pa.string()),
        pa.string_view(),
    ],
    ids=str,
)
def test_an_unsupported_type_is_an_error_that_names_column_and_type(dtype: pa.DataType) -> None:
    with pytest.raises(UnsupportedType) as caught:
        TupleStore.require_supported(pa.schema([("fine", pa.int64()), ("odd", dtype)]))
    assert f"'odd' has type {dtype}, which cannot wait in memory: cast" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [*(dtype for dtype, _ in VALUES), pa.binary(0)], ids=str)
def test_a_type_that_is_called_supported_can_be_stored(dtype: pa.DataType) -> None:
    schema = pa.schema([("c", dtype)])
    try:
        TupleStore.require_supported(schema)
    except UnsupportedType:
        return
    store = TupleStore(schema, 4, 64)
    batch = pa.record_batch([pa.nulls(2, dtype)], schema=schema)
    store.put(_slots(1, 3), batch)
    assert _taken(store, _slots(1, 3)).equals(batch)


@given(st.lists(st.tuples(st.one_of(st.none(), st.text(max_size=9)), st.one_of(st.none(), st.binary(max_size=9)))))
def test_varlen_bytes_count_text_and_binary_and_not_nulls(rows: list[tuple[str | None, bytes | None]]) -> None:
    batch = pa.record_batch(
        {
            "t": pa.array([text for text, _ in rows], pa.string()),
            "n": pa.array(range(len(rows)), pa.int64()),
            "b": pa.array([data for _, data in rows], pa.large_binary()),
        }
    )
    expected = [len((text or "").encode()) + len(data or b"") for text, data in rows]
    assert varlen_bytes(batch).tolist() == expected
    assert varlen_bytes(batch.slice(1)).tolist() == expected[1:]


def test_bytes_behind_a_null_are_not_counted() -> None:
    offsets = pa.py_buffer(np.array([0, 3, 6], dtype=np.int32))
    column = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x01"), offsets, pa.py_buffer(b"abcdef")])
    batch = pa.record_batch([column], names=["t"])
    assert varlen_bytes(batch).tolist() == [3, 0]
    store = TupleStore(batch.schema, 2, 3)
    assert store.fitting_rows(batch) == 2
    store.put(_slots(0, 1), batch)
    assert _taken(store, _slots(0, 1)).to_pylist() == [{"t": "abc"}, {"t": None}]


_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "n": st.one_of(st.none(), st.integers(0, 99)),
            "t": st.one_of(st.none(), st.text("aä", max_size=8)),
            "f": st.one_of(st.none(), st.booleans()),
            "b": st.one_of(st.none(), st.binary(max_size=8)),
            "w": st.one_of(st.none(), st.binary(min_size=3, max_size=3)),
        }
    ),
    max_size=6,
)


def _text_bytes(row: dict[str, Any]) -> int:
    return len((row["t"] or "").encode()) + len(row["b"] or b"")


class StoreInUse(RuleBasedStateMachine):
    """Tuples enter in any free slot and leave in any order; the store is compacted and resized in between."""

    schema = pa.schema(
        [("n", pa.int32()), ("t", pa.string()), ("f", pa.bool_()), ("b", pa.large_binary()), ("w", pa.binary(3))]
    )

    @initialize(capacity=st.integers(1, 12), ring_bytes=st.integers(0, 60), in_order=st.booleans())
    def make(self, capacity: int, ring_bytes: int, in_order: bool) -> None:
        self.store = TupleStore(self.schema, capacity, ring_bytes, 20, 100)
        self.in_order = in_order
        self.free = list(range(capacity))
        # From head to tail: the slot, None where a tuple left, and the bytes.
        self.ring: list[tuple[int | None, int]] = []
        self.row: dict[int, dict[str, Any]] = {}

    @property
    def live_slots(self) -> list[int]:
        return [slot for slot, _ in self.ring if slot is not None]

    @rule(rows=_ROWS, order=st.randoms(use_true_random=False))
    def put_what_fits(self, rows: list[dict[str, Any]], order: Any) -> None:
        batch = pa.RecordBatch.from_pylist(rows, schema=self.schema)
        fitting = self.store.fitting_rows(batch)
        used = sum(size for _, size in self.ring)
        gaps = sum(size for slot, size in self.ring if slot is None)
        room = self.store.ring_bytes - used + (gaps if gaps >= self.store.ring_bytes / 4 else 0)
        sizes = np.cumsum([_text_bytes(row) for row in rows])
        assert fitting == int((sizes <= room).sum())
        fitting = min(fitting, len(self.free))
        batch, rows = batch.slice(0, fitting), rows[:fitting]
        assert self.store.needs_compaction(batch) == (sizes[:fitting].max(initial=0) > self.store.ring_bytes - used)
        if self.store.needs_compaction(batch):
            self.compact(order)
        order.shuffle(self.free)
        slots, self.free = self.free[:fitting], self.free[fitting:]
        self.store.put(_slots(*slots), batch)
        self.row |= dict(zip(slots, rows, strict=True))
        self.ring += [(slot, _text_bytes(row)) for slot, row in zip(slots, rows, strict=True)]

    @rule(order=st.randoms(use_true_random=False))
    def compact(self, order: Any) -> None:
        live = self.live_slots
        order.shuffle(live)
        self.store.compact(_slots(*live))
        self._no_gaps()

    def _no_gaps(self) -> None:
        self.ring = [(slot, size) for slot, size in self.ring if slot is not None]

    @precondition(lambda self: self.row)
    @rule(count=st.integers(1, 6))
    def remove_the_oldest(self, count: int) -> None:
        self._remove(self.live_slots[:count])

    @precondition(lambda self: self.row)
    @rule(count=st.integers(1, 4), order=st.randoms(use_true_random=False))
    def remove_some(self, count: int, order: Any) -> None:
        self._remove(order.sample(self.live_slots, min(count, len(self.row))))

    def _remove(self, gone: list[int]) -> None:
        self.store.free(_slots(*gone))
        self.ring = [(None if slot in gone else slot, size) for slot, size in self.ring]
        for slot in gone:
            del self.row[slot]
        self.free += gone
        if sum(map(_text_bytes, self.row.values())) == 0:
            self._no_gaps()
        if self.in_order:
            self.store.reclaim(self.live_slots[0] if self.row else None)
            while self.ring and self.ring[0][0] is None:
                self.ring.pop(0)

    @rule(
        capacity=st.integers(0, 20),
        ring_bytes=st.one_of(st.none(), st.integers(0, 100)),
        order=st.randoms(use_true_random=False),
    )
    def resize(self, capacity: int, ring_bytes: int | None, order: Any) -> None:
        # As small as what is in it allows, when it is asked for less.
        capacity = max(capacity, len(self.row), 1)
        least = sum(map(_text_bytes, self.row.values()))
        ring_bytes = self.store.ring_bytes if ring_bytes is None else max(ring_bytes, least)
        free = [slot for slot in range(capacity) if slot not in self.row]
        order.shuffle(free)
        new_slot = {slot: free.pop() for slot in self.row if slot >= capacity}
        self.free = free
        self.row = {new_slot.get(slot, slot): row for slot, row in self.row.items()}
        self.ring = [(slot if slot is None else new_slot.get(slot, slot), size) for slot, size in self.ring]
        if ring_bytes != self.store.ring_bytes:
            self._no_gaps()
        live = self.live_slots
        order.shuffle(live)
        self.store.resize(capacity, ring_bytes, Moves(_slots(*new_slot), _slots(*new_slot.values())), _slots(*live))
        assert self.store.ring_bytes == ring_bytes
        assert self.store.nbytes == capacity * self.store.fixed_bytes + ring_bytes

    @rule()
    def go_on_from_its_saved_state(self) -> None:
        saved = unpack_state(pack_state(self.store.state()))
        self.store = TupleStore(self.schema, self.store.capacity, self.store.ring_bytes, 20, 100)
        self.store.set_state(saved, _slots(*self.live_slots))

    @invariant()
    def live_bytes_are_counted(self) -> None:
        assert self.store.live_ring_bytes == sum(map(_text_bytes, self.row.values()))

    @rule(order=st.randoms(use_true_random=False))
    def all_live_tuples_are_as_they_were_put(self, order: Any) -> None:
        live = self.live_slots
        order.shuffle(live)
        assert _taken(self.store, _slots(*live)).to_pylist() == [self.row[slot] for slot in live]
        sizes = self.store.sizes(_slots(*live))
        assert sizes is not None
        assert sizes.tolist() == [_text_bytes(self.row[slot]) for slot in live]


def test_a_store_loses_nothing_when_slots_and_ring_are_reused_compacted_and_resized() -> None:
    run_state_machine_as_test(StoreInUse, settings=settings(stateful_step_count=30))


def test_a_store_without_text_is_resized_and_never_needs_compaction() -> None:
    schema = pa.schema([("n", pa.int64())])
    store = TupleStore(schema, 4, 0, 8, 0)
    batch = pa.record_batch({"n": [1, None]}, schema=schema)
    store.put(_slots(3, 1), batch)
    store.resize(2, 0, Moves(_slots(3), _slots(0)), _slots())
    assert _taken(store, _slots(0, 1)).equals(batch)
    assert not store.needs_compaction(batch)
    store.compact(_slots(0, 1))
    store.resize(8, 0, Moves.of(0), _slots())
    store.put(_slots(7), batch.slice(0, 1))
    assert _taken(store, _slots(0, 7, 1)).to_pylist() == [{"n": 1}, {"n": 1}, {"n": None}]


def test_a_tuple_without_text_stays_older_than_the_one_whose_text_begins_where_it_does() -> None:
    store = TupleStore(pa.schema([("t", pa.string())]), 4, 8)
    store.put(_slots(0, 1, 2, 3), pa.record_batch({"t": ["x", "yy", "", "abc"]}))
    store.free(_slots(1))
    store.compact(_slots(3, 2, 0))
    store.free(_slots(0))
    store.reclaim(2)
    fitting = store.fitting_rows(pa.record_batch({"t": ["12345", "6"]}))
    assert fitting == 1, "the three bytes behind the oldest tuple are in use"


def test_slots_that_are_not_all_that_live_are_refused() -> None:
    store = TupleStore(pa.schema([("t", pa.string())]), 2, 8)
    store.put(_slots(0, 1), pa.record_batch({"t": ["abcd", "ef"]}))
    with pytest.raises(AssertionError, match="live"):
        store.compact(_slots(0))


def test_values_that_do_not_fit_the_ring_are_refused_before_anything_is_written() -> None:
    """The kernel checks no bounds: a value of more than twice the ring would be written behind its end."""
    store = TupleStore(pa.schema([("t", pa.string())]), 2, 8)
    store.put(_slots(0), pa.record_batch({"t": ["abcd"]}))
    with pytest.raises(AssertionError, match="fit"):
        store.put(_slots(1), pa.record_batch({"t": ["12345678"]}))
    assert _taken(store, _slots(0)).to_pylist() == [{"t": "abcd"}]
