"""Joins of two streams are equal to the batch join, whatever comes when."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.shj import Shj
from tests.stream_joins.streams import LEFT_SCHEMA, RIGHT_SCHEMA, run, streams

_BUDGET = 4 << 20
_STEPS = st.lists(st.integers(0, 3), max_size=14)
_SETTINGS = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@_SETTINGS
@given(given_streams=streams(), steps=_STEPS, how=st.sampled_from(["inner", "left"]))
def test_shj(given_streams: Any, steps: list[int], how: Any) -> None:
    op = Shj(LEFT_SCHEMA, RIGHT_SCHEMA, "key", _BUDGET, how=how)
    assert run(op, given_streams, steps) == given_streams.joined(how)


@pytest.mark.parametrize("relation", ["many-to-many", "one-to-many", "many-to-one", "one-to-one"])
@_SETTINGS
@given(data=st.data())
def test_mjoin(relation: Any, data: st.DataObject) -> None:
    given_streams = data.draw(streams(unique=(relation.startswith("one"), relation.endswith("one"))))
    how = data.draw(st.sampled_from(["inner", "left"]))
    op = Mjoin(
        LEFT_SCHEMA,
        RIGHT_SCHEMA,
        "key",
        _BUDGET,
        how=how,  # type: ignore[arg-type]
        relation=relation,
        goal=data.draw(st.sampled_from(["output", "memory", "propagation"])),
        stream_order=data.draw(st.sampled_from(["random", "priority"])),
        tuple_order=data.draw(st.sampled_from([None, "sequential", "value"])),
        quota=data.draw(st.sampled_from([1, 3, 1000])),
        purge_every=data.draw(st.sampled_from([None, 1, 5])),
    )
    assert run(op, given_streams, data.draw(_STEPS)) == given_streams.joined(how)
    assert all(len(window) == 0 for window in op.state.windows), "all streams are over: nothing can match"
