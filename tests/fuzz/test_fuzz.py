"""The fuzzer finds nothing, and it finds what is there."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import Array, SavedState, pack_state, unpack_state
from tests.fuzz.__main__ import fuzz
from tests.fuzz.targets import busy_join, small_steps
from tests.operators.kept_states import begun, join_of, table_in

_FINDINGS = ("crashes", "hangs", "raw_errors", "foreign_memory")


def test_a_sample_of_cases_finds_nothing() -> None:
    result = fuzz(seed=1, first=0, last=115, seconds=600)
    assert {kind: result[kind] for kind in _FINDINGS} == dict.fromkeys(_FINDINGS, 0)
    assert result["cases"] == 115
    assert result["passed"] > 5
    assert result["refused"] > 10


@pytest.mark.slow
def test_a_minute_of_cases_finds_nothing() -> None:
    result = fuzz(seed=2, first=0, last=1 << 60, seconds=60)
    assert {kind: result[kind] for kind in _FINDINGS} == dict.fromkeys(_FINDINGS, 0)
    assert result["cases"] > 100


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
        ("hybridjoin", "stream/window/store/varlen/ring", _all(0xFF)),  # no text
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


@pytest.mark.parametrize("w", [0, -1, 1 << 70, 0.5, True, "1"])
def test_settings_of_a_snapshot_that_no_join_has_are_refused(tmp_path: Path, w: object) -> None:
    table = table_in(tmp_path, "meshjoin")
    with join_of("meshjoin", table) as first, join_of("meshjoin", table) as op:
        begun(first)
        saved = unpack_state(first.snapshot())
        saved.header["tuning"]["w"] = w
        with pytest.raises(SnapshotMismatch, match="w="):
            op.restore(pack_state(saved))
