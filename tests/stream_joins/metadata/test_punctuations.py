"""Which punctuations are asked about, against a list that is looked through."""

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from semistream.stream_joins.metadata.punctuations import Unpassed

_KEYS = st.lists(st.integers(0, 12), max_size=12)


def _array(values: list[int]) -> npt.NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


@given(
    steps=st.lists(
        st.tuples(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), max_size=8), _KEYS, st.booleans()),
        max_size=8,
    ),
    in_state=st.sets(st.integers(0, 12)),
)
def test_what_nothing_in_the_state_holds_back_is_taken_out(
    steps: list[tuple[list[tuple[int, int]], list[int], bool]], in_state: set[int]
) -> None:
    unpassed, plain = Unpassed(), list[tuple[int, int]]()
    for added, leaving, anything in steps:
        unpassed.add(_array([low for low, _ in added]), _array([low + more for low, more in added]))
        plain += [(low, low + more) for low, more in added]
        in_state -= set(leaving)
        unpassed.ask_about_all() if anything else unpassed.gone_from_state(_array(leaving))
        lows, highs = unpassed.take_passable()
        held_back = np.array(
            [any(low <= key <= high for key in in_state) for low, high in zip(lows, highs, strict=True)], dtype=np.bool_
        )
        unpassed.hold_back(lows[held_back], highs[held_back])
        plain = [(low, high) for low, high in plain if any(low <= key <= high for key in in_state)]
        remaining = zip(*(ends.tolist() for ends in unpassed.ranges()), strict=True)
        assert sorted(remaining) == sorted(plain)
        assert len(unpassed) == len(plain)


def test_a_key_that_is_held_back_is_not_asked_about_again_until_it_leaves() -> None:
    unpassed = Unpassed()
    keys = np.arange(100)
    unpassed.add(keys, keys)
    unpassed.hold_back(*unpassed.take_passable())
    assert not unpassed.take_passable()[0].size
    unpassed.gone_from_state(_array([7, 300]))
    assert unpassed.take_passable()[0].tolist() == [7]
    assert unpassed.nbytes == 99 * 8
