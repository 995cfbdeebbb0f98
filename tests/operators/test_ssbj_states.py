"""The state machine of SSBJ: what each scan of R is used for, whatever R's shape and however the stream pauses."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import semistream as ss
from semistream.kernels.arrays import Int64s
from semistream.operators.cache.switching import Phase
from tests.operators.inside import inside
from tests.operators.ssbj_driver import (
    cached_keys,
    check_cached_sets_are_whole,
    expected_pairs,
    feed,
    finish,
    master_of,
    pairs_of,
    sizes,
    ssbj,
    stage_heap,
    step,
    step_until,
    stream_of,
)

# Key k has k rows, spread over the table.
MASTER_IDS = np.random.default_rng(1).permutation(np.repeat(np.arange(12), np.arange(12)))
HOT = np.array([1, 2, 3, 99])  # 99 has no row
COLD = itertools.count(1000)  # no key twice: none is worth caching, and a scan goes on for each


class Arrivals:
    """Tuples of hot keys, so many of each, in order of a stream that remembers itself."""

    def __init__(self) -> None:
        self.ids: list[Int64s] = []
        self._number = 0

    def __call__(self, *keys: int, times: int = 1) -> Any:
        ids = np.repeat(np.array(keys, dtype=np.int64), times)
        self.ids.append(ids)
        self._number += ids.size
        return stream_of(ids, self._number - ids.size)

    @property
    def all_ids(self) -> Int64s:
        return np.concatenate(self.ids)


TABLES: dict[str, dict[str, Any]] = {
    "one page": {"rows_per_page": 1000},
    "a page for each row": {"rows_per_page": 1},
    "pages that b does not divide": {"rows_per_page": 10, "b": 3},
    "b beyond the table": {"rows_per_page": 10, "b": 100},
    "buckets": {"rows_per_page": 4, "buckets": 3, "b": 2},
    "appended files": {"rows_per_page": 4, "appended": 20, "b": 2},
}


def staged(path: Path, rows_per_page: int, b: int = 1, appended: int = 0, **options: Any) -> ss.MasterTable:
    first = MASTER_IDS.size - appended
    table = stage_heap(path, MASTER_IDS[:first], rows_per_page, **options)
    return table.append(master_of(MASTER_IDS).slice(first)) if appended else table


@pytest.mark.parametrize("shape", TABLES.values(), ids=TABLES)
def test_scans_count_then_collect_then_move(tmp_path: Path, shape: dict[str, Any]) -> None:
    table = staged(tmp_path / "r", **shape)
    arrivals = Arrivals()
    results = []
    with sizes(tuple_bytes=10, row_bytes=10, key_bytes=5):
        op = ssbj(table, how="left", b=shape.get("b", 1))
        assert inside(op).scan is not None
        seen: list[tuple[int, Phase]] = []
        for _ in range(7 * inside(op).plan.iterations_per_cycle):
            begins = inside(op).scan.at_scan_start
            pages = inside(op).scan.scanned_pages
            # Few per step, so that hot keys are not only there when a scan begins.
            op.offer(arrivals(*HOT.tolist(), 11, times=1 if pages % table.num_pages else 4))
            op.offer(arrivals(next(COLD)))
            before = cached_keys(op)
            results += step(op)
            assert inside(op).switching.cycle == pages // table.num_pages + 1
            if begins:
                seen.append((inside(op).switching.cycle, inside(op).switching.phase))
            elif inside(op).switching.phase is not Phase.PHASE_OUT:
                assert cached_keys(op) == before, "keys move when a phase-out begins, and only then"
            if (
                inside(op).scan.at_scan_start
                and inside(op).switching.phase is Phase.INCREMENTING
                and inside(op).switching.cycle == 1
            ):
                counted = dict(
                    zip(inside(op).switching._codes.tolist(), inside(op).switching._row_count.tolist(), strict=True)
                )
                assert counted.items() >= {1: 1, 2: 2, 3: 3, 99: 0, 11: 11}.items()
            check_cached_sets_are_whole(op, MASTER_IDS)
            if inside(op).switching.cycle < 3:
                assert not cached_keys(op)
        states = [Phase.INCREMENTING, Phase.SWITCHING, Phase.PHASE_OUT]
        assert seen == [(cycle, states[(cycle - 1) % 3]) for cycle in range(1, 8)]
        assert cached_keys(op) >= set(HOT.tolist())
        assert op.metrics.cycles == 7
        results += finish(op)
    op.close()
    assert pairs_of(results) == expected_pairs(arrivals.all_ids, MASTER_IDS, "left")
    assert op.metrics.tuples_through_cache > 0


@pytest.mark.parametrize("after_pause", ["at once", "mid-scan"])
@pytest.mark.parametrize("state", Phase)
def test_a_stream_may_pause_in_each_state(tmp_path: Path, state: Phase, after_pause: str) -> None:
    """While no tuple waits the scan stands still, and goes on with what it was used for."""
    table = stage_heap(tmp_path / "r", MASTER_IDS, rows_per_page=4)
    assert table.num_pages == 17
    arrivals = Arrivals()
    with sizes(tuple_bytes=10, row_bytes=10, key_bytes=5):
        op = ssbj(table, how="left", b=3)
        assert inside(op).scan is not None
        results = step_until(op, state, lambda: arrivals(*HOT.tolist(), next(COLD), times=2))
        if after_pause == "mid-scan":
            for _ in range(3):
                op.offer(arrivals(*HOT.tolist(), next(COLD)))
                results += step(op)
        results += finish(op)
        cycle, pages, watched = (
            inside(op).switching.cycle,
            inside(op).scan.scanned_pages,
            inside(op).switching._codes.tolist(),
        )
        for _ in range(5):
            assert list(op.step()) == []
        assert (inside(op).switching.cycle, inside(op).scan.scanned_pages) == (cycle, pages)
        assert inside(op).switching._codes.tolist() == watched
        for _ in range(40):
            op.offer(arrivals(*HOT.tolist(), next(COLD)))
            results += step(op)
            check_cached_sets_are_whole(op, MASTER_IDS)
        assert set(HOT.tolist()) <= cached_keys(op)
        results += finish(op)
    op.close()
    assert pairs_of(results) == expected_pairs(arrivals.all_ids, MASTER_IDS, "left")


def test_a_scan_that_no_cached_key_needs_is_not_made(tmp_path: Path) -> None:
    table = stage_heap(tmp_path / "r", MASTER_IDS, rows_per_page=4)
    arrivals = Arrivals()
    op = ssbj(table, b=3)
    results = feed(op, arrivals(1, 2, times=400), tuples_per_step=10)
    results += finish(op)
    assert cached_keys(op) == {1, 2}
    pages, steps = op.metrics.pages_read, op.metrics.steps
    results += feed(op, arrivals(1, 2, times=50), tuples_per_step=10)
    assert op.pending == 0
    assert (op.metrics.pages_read, op.metrics.steps) == (pages, steps + 10)
    assert pairs_of(results) == expected_pairs(arrivals.all_ids, MASTER_IDS)
    op.close()


def test_the_first_scan_counts(tmp_path: Path) -> None:
    """Three scans are enough for a key to move: none passes unused while rows are measured."""
    table = stage_heap(tmp_path / "r", MASTER_IDS, rows_per_page=4)
    op = ssbj(table, b=table.num_pages)
    for cycle in (1, 2, 3):
        assert not cached_keys(op)
        op.offer(stream_of(np.full(30, 2)))
        step(op)
        assert inside(op).switching.cycle == cycle
    assert cached_keys(op) == {2}
    op.close()


def test_keys_that_no_scan_has_counted_get_their_turn(tmp_path: Path) -> None:
    """Keys with many rows and most tuples stay on disk; those with fewer tuples are not held up by them."""
    heavy, light, rows = 120, 60, 40
    master_ids = np.concatenate([np.repeat(np.arange(heavy), rows), np.arange(heavy, heavy + light)])
    table = ss.stage(master_of(master_ids), tmp_path / "r", key="id", layout="heap", page_bytes=4096)
    a_scan = np.concatenate([np.repeat(np.arange(heavy), 6), np.repeat(np.arange(heavy, heavy + light), 4)])
    with sizes(tuple_bytes=60, row_bytes=20, key_bytes=30):
        op = ssbj(table, memory="600KB", how="semi", b=table.num_pages)
        for scan in range(90):
            assert op.offer(stream_of(a_scan)) == a_scan.size
            step(op)
            if scan == 3:
                # So few can be counted at once that those with most tuples would fill the list.
                inside(op).balance._wanted_cache_bytes = inside(op).front_stage.bytes_for(16)
                inside(op).balance.move_memory()
                assert 0 < inside(op).front_stage.most_collected < heavy // 2
    assert not cached_keys(op) & set(range(heavy))
    assert len(cached_keys(op)) > 0.9 * light
    op.close()
