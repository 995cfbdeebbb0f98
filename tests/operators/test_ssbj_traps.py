"""Where S0's Algorithm 1, read literally, loses rows or caches nothing: each literal reading fails here.

Every test runs a scenario twice: as SSBJ is, and with the literal reading put in its place.
"""

import itertools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.kernels.arrays import Int32s, Int64s
from semistream.kernels.hashing.multimap import FifoMultimap
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.operators import ssbj as ssbj_module
from semistream.operators.cache.policies.inequality_policy import InequalityPolicy
from semistream.operators.cache.row_cache import RowCache
from semistream.operators.cache.switching import Phase, Switching
from semistream.operators.driver import StepOperator
from tests.operators.inside import inside
from tests.operators.ssbj_driver import (
    cached_keys,
    check_cached_sets_are_whole,
    expected_pairs,
    finish,
    inequality_of,
    pairs_of,
    sizes,
    ssbj,
    stage_heap,
    step,
    stream_of,
)

MASTER_IDS = np.array([1, 5, 2, 6, 3, 7, 1, 5, 2, 6, 3, 7, 1, 5, 2, 6, 3, 7])  # each key in both halves


def run(
    table: ss.MasterTable,
    master_ids: Int64s,
    arriving: Callable[[int, int], list[int]],
    scans: int,
    after: Callable[[StepOperator], None] | None = None,
) -> StepOperator:
    """Join the keys that arrive at each (scan, read) and check results and cache; return the operator."""
    results, ids = [], []
    number = 0
    cold = itertools.count(10**6)
    with sizes(tuple_bytes=10, row_bytes=10, key_bytes=5):
        op = ssbj(table, how="left", b=1)
        reads = inside(op).plan.iterations_per_cycle
        for scan, read in itertools.product(range(1, scans + 1), range(reads)):
            keys = np.array([*arriving(scan, read), next(cold)], dtype=np.int64)
            assert op.offer(stream_of(keys, number)) == keys.size
            number += keys.size
            ids.append(keys)
            results += step(op)
            assert inside(op).switching.cycle == scan
            if after is not None:
                after(op)
        results += finish(op)
    op.close()
    assert pairs_of(results) == expected_pairs(np.concatenate(ids), master_ids, "left")
    return op


@pytest.fixture
def table(tmp_path: Path) -> ss.MasterTable:
    table = stage_heap(tmp_path / "r", MASTER_IDS, rows_per_page=3)
    assert table.num_pages == 6
    return table


def literal_eviction(self: InequalityPolicy, cache: RowCache) -> Int32s:
    """Return the entries to evict by ll. 43-50: hits divided by 10, and set to 0."""
    entries = cache.keys.live_slots()
    waiting = self._hits.values[entries] / 10
    unwanted = cache.row_count(entries) * self._row_bytes >= self._factor * waiting * self._tuple_bytes
    self._hits.values[entries] = 0
    return entries[unwanted]


class TestTrap1EvictionOncePerTenthScan:
    """Ll. 42-51 would run in each iteration of a tenth scan, with counts that the first has set to 0."""

    def scenario(self, table: ss.MasterTable) -> None:
        lost: list[int] = []

        def hot_keys_stay(op: StepOperator) -> None:
            if inside(op).switching.cycle >= 4 and not {1, 2, 3} <= cached_keys(op):
                lost.append(inside(op).switching.cycle)

        run(table, MASTER_IDS, lambda scan, read: [1, 2, 3] * 3, scans=22, after=hot_keys_stay)
        assert not lost

    def test_hot_keys_stay_through_two_evictions(self, table: ss.MasterTable, monkeypatch: pytest.MonkeyPatch) -> None:
        evictions: list[int] = []
        evict = Switching._evict

        def note_and_evict(self: Switching) -> None:
            evictions.append(self.cycle)
            evict(self)

        monkeypatch.setattr(Switching, "_evict", note_and_evict)
        self.scenario(table)
        assert evictions == [10, 20]

    def test_the_literal_reading_evicts_everything(
        self, table: ss.MasterTable, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        observe_pages = Switching.observe_pages

        def observe_and_evict(self: Switching, run: pa.RecordBatch, codes: KeyCodes) -> None:
            observe_pages(self, run, codes)
            if self.cycle % 10 == 0:
                self._evict()

        monkeypatch.setattr(InequalityPolicy, "no_longer_worth", literal_eviction)
        monkeypatch.setattr(Switching, "observe_pages", observe_and_evict)
        with pytest.raises(AssertionError, match=r"assert not \[10"):
            self.scenario(table)


class LiteralSwitching(Switching):
    """Ll. 28-36 for each row against H_S as it is then; l. 10 moves whatever was loaded."""

    def begin_cycle(self, window: FifoMultimap) -> None:
        self.cycle += 1
        self._window = window
        inequality = self._front_stage.inequality
        assert inequality is not None
        inequality.end_turn()
        if self.phase is Phase.INCREMENTING:
            self._counts: dict[int, int] = {}
            self._loaded: list[tuple[int, pa.RecordBatch, int]] = []
        elif self.phase is Phase.PHASE_OUT:
            codes = np.array(sorted({code for code, _, _ in self._loaded}), dtype=np.int64)
            sets = self._front_stage.collect(codes, np.ones(codes.size, dtype=np.int32)).sets
            for code, run, row in self._loaded:
                sets.add(np.searchsorted(codes, [code]), run, np.array([row]))
            sets.move_in()

    def observe_pages(self, run: pa.RecordBatch, codes: KeyCodes) -> None:
        inequality = self._front_stage.inequality
        assert inequality is not None
        waiting = self._window.count(codes.code)
        cached = self._front_stage.find(codes.code) >= 0
        for row, code in enumerate(codes.code.tolist()):
            if not waiting[row] or cached[row]:
                continue
            if self.phase is Phase.INCREMENTING:
                self._counts[code] = self._counts.get(code, 0) + 1
            elif self.phase is Phase.SWITCHING:
                count = np.array([self._counts.get(code, 0)], dtype=np.int32)
                if inequality.is_cheaper_cached(waiting[row : row + 1], count)[0]:
                    self._loaded.append((code, run, row))


class TestTrap2OnlyWholeRowSets:
    """A key that comes in mid-scan, or whose tuples change in number, must not be cached in part."""

    def scenario(self, table: ss.MasterTable, arriving: Callable[[int, int], list[int]]) -> set[int]:
        op = run(
            table,
            MASTER_IDS,
            arriving,
            scans=7,
            after=lambda op: check_cached_sets_are_whole(op, MASTER_IDS),
        )
        return cached_keys(op)

    @staticmethod
    def comes_in_mid_scan(scan: int, read: int) -> list[int]:
        # Key 1 is there from the start, key 5 only after pages with its rows have gone by while rows are collected.
        return [1, 1] + ([5] * 6 if (scan, read) >= (2, 3) else [])

    @staticmethod
    def changes_in_number(scan: int, read: int) -> list[int]:
        # While rows are collected, many tuples of key 2 leave: they came all at once, a scan before.
        return {(1, 0): [2, 2], (1, 3): [2] * 6}.get((scan, read), [1, 1] if scan < 4 else [])

    def test_whole_sets_or_none(self, table: ss.MasterTable) -> None:
        assert self.scenario(table, self.comes_in_mid_scan) == {1, 5}
        assert self.scenario(table, self.changes_in_number) == {2}

    @pytest.mark.parametrize("arriving", ["comes_in_mid_scan", "changes_in_number"])
    def test_the_literal_reading_caches_a_part(
        self, table: ss.MasterTable, arriving: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ssbj_module, "Switching", LiteralSwitching)
        with pytest.raises(AssertionError, match=r"key [25]"):
            self.scenario(table, getattr(self, arriving))

    @pytest.mark.parametrize("arriving", ["comes_in_mid_scan", "changes_in_number"])
    def test_a_part_in_the_cache_loses_results(
        self, table: ss.MasterTable, arriving: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ssbj_module, "Switching", LiteralSwitching)

        def asked_for_again(scan: int, read: int) -> list[int]:
            return [*getattr(self, arriving)(scan, read), *([2, 5] if scan > 3 else [])]

        with pytest.raises(AssertionError, match=r"assert \[\(0"):
            run(table, MASTER_IDS, asked_for_again, scans=5)


class TestTrap3KeysWithoutRows:
    """Ll. 28-36 run for rows, so that a key without any is never cached, against the paper's own text."""

    def scenario(self, table: ss.MasterTable) -> None:
        op = run(table, MASTER_IDS, lambda scan, read: [98, 99] * 2 if scan < 5 else [98], scans=6)
        assert {98, 99} <= cached_keys(op)
        cached = inside(op).front_stage.find(np.array([98, 99]))
        assert inside(op).front_stage.cache is not None
        assert inside(op).front_stage.cache.row_count(cached).tolist() == [0, 0]
        assert op.metrics.tuples_through_cache > 0
        assert op.metrics.tuples_without_match == op.metrics.tuples_in

    def test_they_are_cached_as_empty(self, table: ss.MasterTable) -> None:
        self.scenario(table)

    def test_the_literal_reading_never_sees_them(self, table: ss.MasterTable, monkeypatch: pytest.MonkeyPatch) -> None:
        move_in = Switching._move_in

        def move_in_keys_of_rows(self: Switching) -> None:
            if self._collecting is not None:
                sets = self._collecting.sets
                sets.give_up(np.flatnonzero(sets.row_count == 0))
            move_in(self)

        monkeypatch.setattr(Switching, "_move_in", move_in_keys_of_rows)
        with pytest.raises(AssertionError, match="98"):
            self.scenario(table)


class TestTrap4OlderTuplesOfAMovedKeyStay:
    """They have met a part of R: gone at once they lose rows, answered by the cache they get some twice."""

    def scenario(self, table: ss.MasterTable) -> None:
        waiting_when_moved: list[int] = []

        def look(op: StepOperator) -> None:
            if (
                inside(op).switching.cycle == 3
                and inside(op).scan is not None
                and inside(op).scan.scanned_pages % table.num_pages == 1
            ):
                assert {1, 2} <= cached_keys(op)
                window = inside(op).stream.window.codes
                assert isinstance(window, FifoMultimap)
                waiting_when_moved.extend(window.count(np.array([1, 2])).tolist())

        run(table, MASTER_IDS, lambda scan, read: [1, 1, 2, 2, 2], scans=4, after=look)
        assert waiting_when_moved == [10, 15]  # of the last five reads: those before have met all of R

    def test_they_expire_with_their_chunks(self, table: ss.MasterTable) -> None:
        self.scenario(table)

    def test_removing_them_loses_results(self, table: ss.MasterTable, monkeypatch: pytest.MonkeyPatch) -> None:
        begin_cycle = Switching.begin_cycle

        def begin_and_remove(self: Switching, window: FifoMultimap) -> None:
            begin_cycle(self, window)
            cache = self._front_stage.cache
            if self.phase is Phase.PHASE_OUT and cache is not None:
                codes = cache.keys.codes_at(cache.keys.live_slots())
                # In their place come tuples that match nothing, because chunks count what is in the window.
                removed = window.delete(codes)
                window.insert(np.full(removed.size, -1, dtype=np.int64))

        monkeypatch.setattr(Switching, "begin_cycle", begin_and_remove)
        with pytest.raises(AssertionError):
            self.scenario(table)


class TestTrap5HitsPerScanThatAKeyWasCachedFor:
    """A key that moved in with the ninth scan has been hit for one scan, not for ten, when the tenth begins."""

    def scenario(self, table: ss.MasterTable) -> None:
        def late_key_stays(op: StepOperator) -> None:
            if inside(op).switching.cycle >= 9:
                assert 3 in cached_keys(op)

        run(table, MASTER_IDS, lambda scan, read: [3, 3] if scan >= 7 else [1], scans=12, after=late_key_stays)

    def test_a_key_that_came_late_stays(self, table: ss.MasterTable) -> None:
        self.scenario(table)

    def test_divided_by_ten_it_leaves(self, table: ss.MasterTable, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(InequalityPolicy, "no_longer_worth", literal_eviction)
        with pytest.raises(AssertionError, match="assert 3 in"):
            self.scenario(table)


class TestTrap6BytesAndTuplesAreNotMixed:
    """Eq. 6 sets bytes equal to tuples. A comparison of bytes with bytes does not depend on their unit."""

    @staticmethod
    def decisions(tuple_bytes: float, row_bytes: float, key_bytes: float) -> list[bool]:
        policy = InequalityPolicy(
            4, tuple_bytes=tuple_bytes, row_bytes=row_bytes, key_bytes=key_bytes, turn_tuples=None
        )
        waiting, rows = np.meshgrid(np.arange(2, 40, dtype=np.int32), np.arange(40, dtype=np.int32))
        cheaper: list[bool] = policy.is_cheaper_cached(waiting.ravel(), rows.ravel()).tolist()
        return cheaper

    @pytest.mark.parametrize("unit", [0.001, 0.5, 2, 1024])
    def test_the_unit_of_size_does_not_matter(self, unit: float) -> None:
        assert self.decisions(20 * unit, 120 * unit, 30 * unit) == self.decisions(20, 120, 30)

    def test_the_size_of_a_row_alone_does(self) -> None:
        smaller, larger = self.decisions(20, 60, 30), self.decisions(20, 120, 30)
        assert sum(larger) < sum(smaller)
        assert all(small or not large for small, large in zip(smaller, larger, strict=True))

    def test_the_size_of_a_tuple_alone_does(self) -> None:
        assert sum(self.decisions(40, 120, 30)) > sum(self.decisions(20, 120, 30))

    def test_counts_with_equal_bytes_are_equal(self) -> None:
        """Six tuples of 20 bytes against one row of 120 is a tie, and a tie stays on disk."""
        policy = InequalityPolicy(4, tuple_bytes=20, row_bytes=120, key_bytes=0, turn_tuples=None)
        waiting, rows = np.array([6, 7, 12, 13], dtype=np.int32), np.array([1, 1, 2, 2], dtype=np.int32)
        assert policy.is_cheaper_cached(waiting, rows).tolist() == [False, True, False, True]

    def test_the_operator_goes_by_measured_bytes(self, tmp_path: Path) -> None:
        """The same counts on both sides, a payload that differs: wide rows stay on disk, narrow ones do not."""
        cached = []
        for width in (8, 4000):
            payload = pa.array([b"p" * width] * MASTER_IDS.size, pa.binary(width))
            master = pa.table({"id": MASTER_IDS, "payload": payload})
            table = ss.stage(master, tmp_path / str(width), key="id", layout="heap", page_bytes=4096)
            op = ssbj(table, memory="2MB", b=table.num_pages)
            for _ in range(3):
                op.offer(stream_of(np.repeat([1, 2], 10)))
                step(op)
            cached.append(cached_keys(op))
            assert inequality_of(op)._row_bytes > width
            op.close()
        assert cached == [{1, 2}, set()]
