"""The cache of row sets against a dict, under random actions, and its size in bytes."""

from collections import Counter
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

from semistream.core.saved_state import pack_state, unpack_state
from semistream.kernels.elastic import MOST_SLOTS
from semistream.operators.cache.row_cache import CacheShape, RowCache, RowSets
from semistream.state.tuple_window import VarlenSizes

_SCHEMAS = {
    "fixed": pa.schema([("n", pa.int64()), ("f", pa.bool_())]),
    "text": pa.schema([("n", pa.int64()), ("t", pa.string()), ("f", pa.bool_()), ("b", pa.large_binary())]),
}
_MOST = CacheShape(keys=30, rows=40, ring_bytes=200)
_CODES = [np.iinfo(np.int64).min, -1, 0, *range(1, 25), np.iinfo(np.int64).max]

Row = tuple[Any, ...]

_rows = st.fixed_dictionaries(
    {
        "n": st.one_of(st.none(), st.integers(0, 99)),
        "t": st.one_of(st.none(), st.text("aä", max_size=6)),
        "f": st.one_of(st.none(), st.booleans()),
        "b": st.one_of(st.none(), st.binary(max_size=6)),
    }
)
_shapes = st.one_of(
    st.just(CacheShape(keys=15, rows=20, ring_bytes=90)),
    st.builds(
        CacheShape, keys=st.integers(0, _MOST.keys), rows=st.integers(0, _MOST.rows), ring_bytes=st.integers(0, 200)
    ),
)


def _codes(codes: list[int]) -> npt.NDArray[np.int64]:
    return np.array(codes, dtype=np.int64)


def _varlen(row: Row) -> int:
    return sum(len(value.encode() if isinstance(value, str) else value) for value in row if hasattr(value, "__len__"))


def cached_rows(cache: RowCache, entries: npt.NDArray[np.int32], portion: int) -> "list[Counter[Row]]":
    """Return the rows of every entry, read in portions."""
    found: list[Counter[Row]] = [Counter() for _ in entries]
    tuples, cursors = np.arange(entries.size, dtype=np.int32), cache.first_rows(entries)
    out_tuples, out_rows = np.empty(portion, dtype=np.int32), np.empty(portion, dtype=np.int32)
    at = 0
    while at < entries.size:
        at, filled = cache.pairs(tuples, cursors, at, out_tuples, out_rows)
        batch = cache.take(out_rows[:filled])
        for position, row in zip(out_tuples[:filled].tolist(), batch.to_pylist(), strict=True):
            found[position][tuple(row.values())] += 1
    return found


class CacheAgainstDict(RuleBasedStateMachine):
    @initialize(kind=st.sampled_from(sorted(_SCHEMAS)), shape=_shapes)
    def make(self, kind: str, shape: CacheShape) -> None:
        self.schema = _SCHEMAS[kind]
        shape = self.without_ring_if_fixed(shape)
        self.cache = RowCache(self.schema, shape, _MOST)
        self.cached: dict[int, Counter[Row]] = {}
        self.sets: RowSets | None = None
        self.collecting: dict[int, list[Row] | None] = {}  # None: given up

    def without_ring_if_fixed(self, shape: CacheShape) -> CacheShape:
        return shape if "t" in self.schema.names else CacheShape(shape.keys, shape.rows, 0)

    @property
    def live(self) -> list[Row]:
        waiting = [row for rows in self.collecting.values() for row in rows or []]
        return [row for rows in self.cached.values() for row in rows.elements()] + waiting

    @precondition(lambda self: self.sets is None)
    @rule(codes=st.lists(st.sampled_from(_CODES), unique=True, max_size=8))
    def begin(self, codes: list[int]) -> None:
        absent = [code for code in codes if code not in self.cached]
        self.sets, self.collecting = RowSets(self.cache, _codes(absent)), {code: [] for code in absent}

    @precondition(lambda self: self.sets is not None)
    @rule(data=st.data(), rows=st.lists(_rows, max_size=12), strangers=st.integers(0, 2))
    def collect(self, data: st.DataObject, rows: list[dict[str, Any]], strangers: int) -> None:
        assert self.sets is not None
        if not self.collecting:
            return
        run = pa.RecordBatch.from_pylist([{}] * strangers + rows, schema=self.schema)
        owners = np.array([data.draw(st.integers(0, len(self.collecting) - 1)) for _ in rows], dtype=np.int64)
        codes = list(self.collecting)
        room = self.room()
        self.sets.add(owners, run, np.arange(len(rows)) + strangers)
        wanted = [
            (codes[owner], tuple(row[name] for name in self.schema.names))
            for owner, row in zip(owners, rows, strict=True)
            if self.collecting[codes[owner]] is not None
        ]
        # As many rows from the front as fit; a key is given up with the first that does not.
        sizes = np.cumsum([_varlen(row) for _, row in wanted])
        slots, least_bytes, most_bytes = room
        least = min(slots, int(np.sum(sizes <= least_bytes)))
        most = min(slots, int(np.sum(sizes <= most_bytes)))
        given_up = {code for code, rows_ in zip(codes, self.sets.given_up, strict=True) if rows_}
        fitting = [at for at in range(least, most + 1) if given_up == self.given_up_after(wanted, at)]
        assert fitting, "the keys that were given up are those of the rows that did not fit"
        for code, row in wanted:
            list_ = self.collecting[code]
            if list_ is not None:
                list_.append(row)
        for code in given_up:
            self.collecting[code] = None

    def given_up_after(self, wanted: list[tuple[int, Row]], fitting: int) -> set[int]:
        before = {code for code, rows in self.collecting.items() if rows is None}
        return before | {code for code, _ in wanted[fitting:]}

    def room(self) -> tuple[int, float, int]:
        """Return free slots, and bounds of the free text: gaps of less than a quarter of the ring may stay."""
        used = sum(_varlen(row) for row in self.live)
        ring = self.cache.rows.ring_bytes
        return self.cache.shape.rows - len(self.live), ring - used - ring / 4, ring - used

    @precondition(lambda self: self.sets is not None)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        assert self.sets is not None
        chosen = data.draw(st.sets(st.sampled_from(sorted(self.collecting)))) if self.collecting else set()
        codes = list(self.collecting)
        self.sets.give_up(np.array([codes.index(code) for code in sorted(chosen)], dtype=np.int64))
        self.collecting |= dict.fromkeys(chosen)

    @precondition(lambda self: self.sets is not None)
    @rule()
    def move_in(self) -> None:
        assert self.sets is not None
        whole = [code for code, rows in self.collecting.items() if rows is not None]
        free = self.cache.shape.keys - len(self.cached)
        entries, positions = self.sets.move_in()
        moved = [list(self.collecting)[position] for position in positions]
        assert moved == whole[:free]
        assert entries.tolist() == self.cache.find(_codes(moved)).tolist()
        for code in moved:
            self.cached[code] = Counter(self.collecting[code])
        self.sets, self.collecting = None, {}

    @precondition(lambda self: self.sets is None)
    @rule(
        codes=st.lists(st.sampled_from(_CODES), unique=True, min_size=1, max_size=8),
        data=st.data(),
        rows=st.lists(_rows, min_size=1, max_size=12),
    )
    def take_in(self, codes: list[int], data: st.DataObject, rows: list[dict[str, Any]]) -> None:
        """All of the above in one, so that a cache fills up within a few actions."""
        self.begin(codes)
        self.collect(data, rows, strangers=1)
        self.move_in()

    @precondition(lambda self: self.sets is not None)
    @rule()
    def abandon(self) -> None:
        assert self.sets is not None
        self.sets.abandon()
        self.sets, self.collecting = None, {}

    @precondition(lambda self: self.cached)
    @rule(data=st.data(), everything=st.booleans())
    def evict(self, data: st.DataObject, everything: bool) -> None:
        chosen = sorted(self.cached)
        if not everything:
            chosen = data.draw(st.lists(st.sampled_from(chosen), unique=True))
        self.cache.evict(self.cache.find(_codes(chosen)))
        for code in chosen:
            del self.cached[code]

    @precondition(lambda self: self.sets is None)
    @rule(shape=_shapes)
    def resize(self, shape: CacheShape) -> None:
        before = {code: int(self.cache.find(_codes([code]))[0]) for code in self.cached}
        shape = self.without_ring_if_fixed(
            CacheShape(
                max(shape.keys, len(self.cached)),
                max(shape.rows, len(self.live)),
                max(shape.ring_bytes, sum(_varlen(row) for row in self.live)),
            )
        )
        moves = self.cache.resize(shape)
        moved = dict(zip(moves.from_slots.tolist(), moves.to_slots.tolist(), strict=True))
        for code, entry in before.items():
            assert self.cache.find(_codes([code])).tolist() == [moved.get(entry, entry)]

    @rule()
    def go_on_from_its_saved_state(self) -> None:
        saved = self.cache.state()
        if self.sets is not None:
            saved.put_part("sets", self.sets.state())
        saved = unpack_state(pack_state(saved))
        self.cache = RowCache(self.schema, CacheShape(**saved.header["shape"]), _MOST)
        self.cache.set_state(saved)
        if self.sets is not None:
            self.sets = RowSets.from_state(self.cache, saved.part("sets"))

    @rule(portion=st.integers(1, 9))
    def a_key_is_whole_or_absent(self, portion: int) -> None:
        entries = self.cache.find(_codes(_CODES))
        assert [entry >= 0 for entry in entries] == [code in self.cached for code in _CODES]
        present = [code for code in _CODES if code in self.cached]
        entries = entries[entries >= 0]
        assert self.cache.row_count(entries).tolist() == [self.cached[code].total() for code in present]
        assert cached_rows(self.cache, entries, portion) == [self.cached[code] for code in present]

    @invariant()
    def its_memory_is_that_of_its_shape(self) -> None:
        self.cache._check()
        assert self.cache.nbytes == self.cache.shape.nbytes(self.schema)
        assert self.cache.used_rows == len(self.live)
        assert self.cache.rows.live_ring_bytes == sum(_varlen(row) for row in self.live)
        assert 0 <= self.cache.free_keys <= self.cache.shape.keys - len(self.cached)


def test_a_cache_is_a_dict_of_whole_row_sets_under_any_actions() -> None:
    run_state_machine_as_test(CacheAgainstDict, settings=settings(stateful_step_count=25))


@pytest.mark.parametrize("ring_bytes", [70, 100, 150])
def test_text_that_wraps_around_the_end_of_the_ring_survives_a_resize(ring_bytes: int) -> None:
    cache = RowCache(pa.schema([("t", pa.string())]), CacheShape(10, 10, 100), CacheShape(20, 20, 200))
    texts = {code: chr(97 + code) * 10 for code in range(16)}
    _put(cache, list(range(9)), [texts[code] for code in range(9)])
    cache.evict(cache.find(_codes(list(range(9)))))  # an empty ring begins where it ended
    _put(cache, [9, 10, 11, 12, 13], [texts[code] for code in range(9, 14)])
    cache.resize(CacheShape(7, 7, ring_bytes))
    cache._check()
    _put(cache, [14, 15], [texts[14], texts[15]])
    held = [9, 10, 11, 12, 13, 14, 15]
    assert cached_rows(cache, cache.find(_codes(held)), 3) == [Counter([(texts[code],)]) for code in held]


def _cache(rows: int, ring_bytes: int) -> RowCache:
    return RowCache(pa.schema([("t", pa.string())]), CacheShape(rows, rows, ring_bytes))


def _put(cache: RowCache, codes: list[int], texts: list[str]) -> list[int]:
    """Cache keys with one row each and return those that came in."""
    sets = RowSets(cache, _codes(codes))
    sets.add(np.arange(len(codes)), pa.record_batch({"t": texts}), np.arange(len(codes)))
    return [codes[position] for position in sets.move_in()[1].tolist()]


@pytest.mark.parametrize("seed", range(3))
def test_space_that_was_freed_in_any_order_comes_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cache = _cache(20, 200)
    texts = {code: chr(97 + code % 26) * 10 for code in range(1000)}
    held = _put(cache, list(range(20)), [texts[code] for code in range(20)])
    assert len(held) == 20
    for new in range(20, 1000, 5):
        # A quarter of the ring at once: gaps that are smaller are not closed.
        gone = rng.choice(held, 5, replace=False).tolist()
        cache.evict(cache.find(_codes(gone)))
        held = [code for code in held if code not in gone]
        assert cache.free_keys == 5
        held += _put(cache, codes := list(range(new, new + 5)), [texts[code] for code in codes])
        assert len(held) == 20
        cache._check()
    entries = cache.find(_codes(held))
    assert cached_rows(cache, entries, 3) == [Counter([(texts[code],)]) for code in held]


def test_gaps_that_are_too_small_to_close_are_not_called_room() -> None:
    """Else a policy takes keys in without evicting any, they find no room, and the cache stays as it is for good."""
    cache = _cache(20, 200)
    _put(cache, list(range(20)), ["0123456789"] * 20)
    for code in range(20):
        cache.evict(cache.find(_codes([code])))
        fitting = len(_put(cache, [100 + code], ["0123456789"]))
        assert cache.free_keys == 0 or fitting
        if fitting:
            return
    pytest.fail("evicting all keys made no room for one")


def test_a_row_set_larger_than_the_cache_leaves_nothing_behind() -> None:
    cache = _cache(4, 100)
    _put(cache, [1], ["one"])
    sets = RowSets(cache, _codes([7, 8]))
    run = pa.record_batch({"t": [str(n) for n in range(10)]})
    sets.add(np.array([8, 8]) - 8, run, np.array([0, 1]))
    sets.add(np.array([1]), run, np.array([2]))
    sets.add(np.zeros(5, dtype=np.int64), run, np.arange(3, 8))
    assert sets.row_count.tolist() == [0, 1]
    assert cache.used_rows == 2
    entries, positions = sets.move_in()
    assert positions.tolist() == [1]
    assert cached_rows(cache, entries, 9) == [Counter([("2",)])]
    assert cache.find(_codes([7])).tolist() == [-1]


def test_a_text_longer_than_the_ring_gives_its_key_up() -> None:
    cache = _cache(4, 10)
    assert _put(cache, [1, 2, 3], ["a" * 11, "b", "c"]) == []  # those behind it wait for another time
    assert _put(cache, [2, 3], ["b", "c"]) == [2, 3]


def test_keys_without_rows_are_entries_with_none() -> None:
    cache = _cache(4, 10)
    sets = RowSets(cache, _codes([5, -5]))
    entries, _ = sets.move_in()
    assert cache.row_count(entries).tolist() == [0, 0]
    assert cached_rows(cache, entries, 3) == [Counter(), Counter()]


def test_slots_are_32_bit_numbers_however_much_memory_there_is() -> None:
    shape = CacheShape.fitting(_SCHEMAS["text"], VarlenSizes(8, 8), 1 << 50, 16.0)
    assert shape.rows == shape.keys == MOST_SLOTS < 2**31


@given(
    kind=st.sampled_from(sorted(_SCHEMAS)),
    cache_bytes=st.integers(-10, 20_000),
    mean=st.floats(0, 100),
    longer=st.integers(0, 500),
    key_bytes=st.floats(0, 50),
    rows_per_key=st.floats(1, 20),
)
def test_a_shape_is_the_largest_in_its_bytes(
    kind: str, cache_bytes: int, mean: float, longer: int, key_bytes: float, rows_per_key: float
) -> None:
    schema = _SCHEMAS[kind]
    varlen = VarlenSizes(mean, int(mean) + longer) if kind == "text" else VarlenSizes(0.0, 0)
    shape = CacheShape.fitting(schema, varlen, cache_bytes, key_bytes, rows_per_key)
    cache = RowCache(schema, shape)
    assert cache.nbytes == shape.nbytes(schema)
    if shape.rows:
        assert cache.nbytes + int(shape.keys * key_bytes) <= cache_bytes
        assert shape.ring_bytes >= varlen.largest
    larger = CacheShape.of_rows(shape.rows + 1, varlen, rows_per_key)
    assert larger.nbytes(schema) + int(larger.keys * key_bytes) > cache_bytes
