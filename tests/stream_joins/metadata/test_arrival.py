"""What clustered and ordered arrival say, and which tuples do not keep to it."""

import numpy as np
import numpy.typing as npt
import pytest

from semistream.stream_joins.metadata.arrival import Arrival, ArrivalOrder

_LIMITS = np.iinfo(np.int64)


def _codes(*values: int) -> npt.NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


@pytest.mark.parametrize(
    ("arrival", "runs", "over", "wrong"),
    [
        ("any", [[3, 1, 3]], [[]], [[]]),
        ("clustered", [[3, 3, 5], [5, 5], [8], []], [[(3, 3)], [], [(5, 5)], []], [[], [], [], []]),
        ("clustered", [[3, 5, 3, 7]], [[(3, 3), (5, 5)]], [[2]]),
        ("clustered", [[3], [4, 3, 4]], [[], [(3, 3)]], [[], [1, 2]]),
        ("ascending", [[3, 3, 5], [6, 4, 7]], [[(_LIMITS.min, 4)], [(_LIMITS.min, 6)]], [[], [1]]),
        ("descending", [[5, 3], [4]], [[(4, _LIMITS.max)], [(4, _LIMITS.max)]], [[], [0]]),
        ("ascending", [[_LIMITS.min]], [[]], [[]]),
        ("descending", [[_LIMITS.max]], [[]], [[]]),
    ],
)
def test_arrival(
    arrival: Arrival, runs: list[list[int]], over: list[list[tuple[int, int]]], wrong: list[list[int]]
) -> None:
    order = ArrivalOrder(arrival)
    for run, expected_over, expected_wrong in zip(runs, over, wrong, strict=True):
        other = ArrivalOrder(arrival)
        other.set_state(order.state())
        implied, again = order.observe(_codes(*run)), other.observe(_codes(*run))
        assert list(zip(implied.lows.tolist(), implied.highs.tolist(), strict=True)) == expected_over
        assert np.flatnonzero(implied.wrong).tolist() == expected_wrong
        assert again.lows.tolist() == implied.lows.tolist()
