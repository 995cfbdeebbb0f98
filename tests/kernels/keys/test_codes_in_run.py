"""Codes of a run among themselves, against Python's sets."""

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from semistream.kernels.keys.codes_in_run import follow_their_mark, repeat_in_run

_LIMITS = np.iinfo(np.int64)
_CODES = st.lists(
    st.one_of(st.integers(-6, 6), st.sampled_from([_LIMITS.min, _LIMITS.max]), st.integers(-(2**40), 2**40)),
    max_size=80,
)


def _array(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


@given(codes=_CODES)
def test_codes_that_came_before(codes: list[int]) -> None:
    expected = [code in codes[:row] for row, code in enumerate(codes)]
    assert repeat_in_run(_array(codes)).tolist() == expected


@given(codes=_CODES, data=st.data())
def test_codes_after_a_mark_on_them(codes: list[int], data: st.DataObject) -> None:
    marks = data.draw(st.lists(st.sampled_from([*codes, 99]), max_size=40))
    at = sorted(data.draw(st.integers(0, len(codes))) for _ in marks)
    expected = [
        any(mark == code and place <= row for mark, place in zip(marks, at, strict=True))
        for row, code in enumerate(codes)
    ]
    assert follow_their_mark(_array(codes), _array(marks), _array(at)).tolist() == expected


def test_a_run_of_many_codes() -> None:
    codes = np.random.default_rng(0).integers(0, 50_000, 60_000)
    first = np.unique(codes, return_index=True)[1]
    assert np.flatnonzero(~repeat_in_run(codes)).tolist() == sorted(first.tolist())
