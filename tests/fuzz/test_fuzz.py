"""The fuzzer finds nothing, and it finds what is there."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import Array, SavedState, pack_state, table_array, unpack_state
from tests.fuzz.__main__ import FINDINGS, fuzz
from tests.fuzz.variants import busy_join, small_steps
from tests.operators.kept_states import begun, join_of, table_in


def test_a_sample_of_cases_finds_nothing() -> None:
    result = fuzz(seed=1, first=0, last=156, seconds=600)
    assert {kind: result[kind] for kind in FINDINGS} == dict.fromkeys(FINDINGS, 0)
    assert result["cases"] == 156
    assert result["passed"] > 5
    assert result["refused"] > 10


@pytest.mark.slow
def test_a_minute_of_cases_finds_nothing() -> None:
    result = fuzz(seed=2, first=0, last=1 << 60, seconds=60)
    assert {kind: result[kind] for kind in FINDINGS} == dict.fromkeys(FINDINGS, 0)
    assert result["cases"] > 100


def test_the_run_in_the_docs_took_an_hour_and_found_nothing() -> None:
    result = json.loads((Path(__file__).parents[2] / "docs/results/fuzz.json").read_text())
    assert {kind: result[kind] for kind in FINDINGS} == dict.fromkeys(FINDINGS, 0)
    assert result["seconds"] >= 3600
    assert result["cases"] == sum(result["cases_by_target"].values()) > 10_000


def _all(value: int) -> Callable[[Array], None]:
    def change(array: Array) -> None:
        array[...] = value

    return change


def _shift(array: Array) -> None:
    array[...] = np.roll(array, 1, axis=0)


@pytest.mark.parametrize(
    ("name", "array", "change"),
    [
        ("hybridjoin", "stream/window/codes/q_next", _all(0)),  # a list without an end
        ("hybridjoin", "stream/window/codes/q_next", _all(1 << 30)),
        ("hybridjoin", "stream/window/codes/q_next", _shift),
        ("hybridjoin", "stream/window/codes/ends", _all(1 << 40)),
        ("hybridjoin", "stream/window/codes/ends", _all(-7)),
        ("hybridjoin", "stream/window/store/varlen/starts", _all(1 << 60)),
        ("hybridjoin", "stream/window/store/varlen/starts", _all(-(1 << 60))),
        ("hybridjoin", "stream/window/store/varlen/lengths", _all(-1)),
        ("hybridjoin", "stream/window/store/varlen/lengths", _all((1 << 31) - 1)),
        ("chybridjoin", "cache/rows/next_row", _all(0)),
        ("chybridjoin", "cache/rows/next_row", _all(1 << 30)),
        ("chybridjoin", "cache/rows/first_row", _all(0)),
        ("chybridjoin", "cache/rows/row_count", _all(1 << 20)),
        ("chybridjoin", "cache/rows/keys/lines", _all(1 << 30)),
        ("chybridjoin", "cache/rows/keys/lines", _all(1)),
        ("chybridjoin", "cache/rows/keys/lines", _shift),
        ("chybridjoin", "cache/rows/keys/tags", _all(9)),  # no empty line, where a probe would end
        ("chybridjoin", "cache/rows/keys/ends", _all(1 << 40)),
    ],
)
def test_a_state_whose_links_lead_astray_is_refused(
    tmp_path: Path, name: str, array: str, change: Callable[[Array], None]
) -> None:
    table = table_in(tmp_path, name)
    with busy_join(name, table) as first, small_steps(name, table) as op:
        saved = unpack_state(pack_state(first.exact_state()))
        arrays = {each: np.array(content) for each, content in saved.arrays.items()}
        change(arrays[array])
        with pytest.raises(SnapshotMismatch) as caught:
            op.set_exact_state(SavedState(saved.header, arrays, exact=True))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("meshjoin random", ("shedding", "tuples_shed"), {}),
        ("meshjoin random", ("shedding", "tuples_shed"), 3),
        ("meshjoin random", ("shedding", "tuples_reloaded"), -1),
        ("cmeshjoin keep", ("shedding", "tuples_dropped"), True),
        ("hybridjoin considering", ("shedding", "random"), {"bit_generator": "PCG64"}),
    ],
)
def test_a_snapshot_with_numbers_that_no_join_has_is_refused(
    tmp_path: Path, name: str, header: tuple[str, str], value: object
) -> None:
    table = table_in(tmp_path, name.split()[0])
    with busy_join(name, table) as first, small_steps(name, table) as op:
        saved = unpack_state(first.snapshot())
        saved.header[header[0]][header[1]] = value
        with pytest.raises(SnapshotMismatch) as caught:
            op.restore(pack_state(saved))
    assert "\n" not in str(caught.value)


_SHED = ("meshjoin random", "shedding/shed")
_WAITING = ("meshjoin in order", "delivery/results")


@pytest.mark.parametrize(
    ("name", "array", "change"),
    [
        (*_SHED, lambda rows: rows.drop_columns(["note"])),
        (*_SHED, lambda rows: rows.set_column(rows.num_columns - 1, "", pa.nulls(len(rows), pa.int64()))),
        (*_SHED, lambda rows: rows.set_column(rows.num_columns - 1, "", pa.array(np.full(len(rows), -1)))),
        (*_WAITING, lambda rows: rows.select(range(rows.num_columns - 1))),
        (*_WAITING, lambda rows: rows.set_column(0, "id", pa.nulls(len(rows), pa.float64()))),
        (*_WAITING, lambda rows: rows.set_column(rows.num_columns - 1, "", pa.array(np.full(len(rows), 0.5)))),
        (*_WAITING, lambda rows: rows.set_column(rows.num_columns - 1, "", pa.array(np.full(len(rows), 1 << 60)))),
    ],
)
def test_rows_of_a_snapshot_that_are_not_numbered_tuples_are_refused(
    tmp_path: Path, name: str, array: str, change: Callable[[pa.Table], pa.Table]
) -> None:
    table = table_in(tmp_path, name.split()[0])
    with busy_join(name, table) as first, small_steps(name, table) as op:
        saved = unpack_state(first.snapshot())
        rows = saved.table(array)
        assert rows.num_rows > 0
        changed = SavedState(saved.header, {**saved.arrays, array: table_array(change(rows))})
        with pytest.raises(SnapshotMismatch, match=r"columns|number"):
            op.restore(pack_state(changed))


@pytest.mark.parametrize("changed", [{"cycle": 1}, {"cycle": 3}, {"watches": False}, {"collecting": None}])
def test_keys_on_their_way_into_the_cache_fit_the_phase_of_the_scan(tmp_path: Path, changed: dict[str, object]) -> None:
    table = table_in(tmp_path, "ssbj")
    with busy_join("ssbj", table) as first, small_steps("ssbj", table) as op:
        saved = unpack_state(pack_state(first.exact_state()))
        assert saved.header["switching"]["cycle"] == 2, "rows are collected"
        saved.header["switching"].update(changed)
        with pytest.raises(SnapshotMismatch):
            op.set_exact_state(saved)


@pytest.mark.parametrize("w", [0, -1, 1 << 70, 0.5, True, "1"])
def test_settings_of_a_snapshot_that_no_join_has_are_refused(tmp_path: Path, w: object) -> None:
    table = table_in(tmp_path, "meshjoin")
    with join_of("meshjoin", table) as first, join_of("meshjoin", table) as op:
        begun(first)
        saved = unpack_state(first.snapshot())
        saved.header["tuning"]["w"] = w
        with pytest.raises(SnapshotMismatch, match="w="):
            op.restore(pack_state(saved))
