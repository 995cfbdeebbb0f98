"""Joins of two streams are equal to the batch join, whatever comes when."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.shj import Shj
from semistream.stream_joins.xjoin import Xjoin
from tests.depth import examples
from tests.stream_joins.streams import LEFT_SCHEMA, RIGHT_SCHEMA, Streams, run, streams

_BUDGETS = st.sampled_from([48 << 10, 64 << 10, 4 << 20])  # the small ones go to disk
_STEPS = st.lists(st.sampled_from([0, 1, 2, 300]), max_size=14)  # with many, all that can be done while nothing waits
_MOVES = st.lists(st.booleans(), max_size=14)
_HOWS = st.sampled_from(["inner", "left"])
_SETTINGS = examples(0.3)


@_SETTINGS
@given(given_streams=streams(), steps=_STEPS, moves=_MOVES, how=_HOWS)
def test_shj(given_streams: Streams, steps: list[int], moves: list[bool], how: Any) -> None:
    def make() -> StreamJoin:
        return Shj(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 4 << 20, how=how)

    assert run(make, given_streams, steps, moves) == given_streams.joined(how)


@_SETTINGS
@given(given_streams=streams(), steps=_STEPS, moves=_MOVES, how=_HOWS, budget=_BUDGETS)
def test_xjoin(given_streams: Streams, steps: list[int], moves: list[bool], how: Any, budget: int) -> None:
    def make() -> StreamJoin:
        return Xjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", budget, how=how)

    assert run(make, given_streams, steps, moves) == given_streams.joined(how)


@pytest.mark.parametrize("relation", ["many-to-many", "one-to-many", "many-to-one", "one-to-one"])
@_SETTINGS
@given(data=st.data())
def test_mjoin(relation: Any, data: st.DataObject) -> None:
    given_streams = data.draw(streams(unique=(relation.startswith("one"), relation.endswith("one"))))
    how: Any = data.draw(_HOWS)
    budget = data.draw(_BUDGETS)
    options: dict[str, Any] = {
        "relation": relation,
        "goal": data.draw(st.sampled_from(["output", "memory", "propagation"])),
        "stream_order": data.draw(st.sampled_from(["chosen", "random", "priority"])),
        "tuple_order": data.draw(st.sampled_from(["chosen", "sequential", "value"])),
        "quota": data.draw(st.sampled_from(["chosen", 1, 3, 1000])),
        "purge_every": data.draw(st.sampled_from(["chosen", 1, 2, 5])),
    }
    made: list[Mjoin] = []

    def make() -> StreamJoin:
        made.append(Mjoin(LEFT_SCHEMA, RIGHT_SCHEMA, "key", budget, how=how, **options))
        return made[-1]

    steps, moves, settles = data.draw(_STEPS), data.draw(_MOVES), data.draw(_MOVES)
    assert run(make, given_streams, steps, moves, settles) == given_streams.joined(how)
    assert all(len(window) == 0 for window in made[-1].state.windows), "all streams are over: nothing can match"
    assert not made[-1].disk.parts.used
