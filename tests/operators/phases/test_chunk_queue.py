"""The queue of chunks against a deque."""

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.operators.phases.chunk_queue import CHUNK_BYTES, ChunkQueue


@given(st.integers(1, 6), st.lists(st.one_of(st.just("pop"), st.integers(1, 9)), max_size=40), st.integers(0, 60))
def test_chunks_are_those_of_a_deque(capacity: int, actions: list[str | int], page: int) -> None:
    queue, expected = ChunkQueue(capacity), deque[tuple[int, int]]()
    position = 0
    for action in actions:
        if isinstance(action, int):
            if not queue.is_full:
                position += action % 3 + 1
                queue.push(position, action)
                expected.append((position, action))
        elif expected:
            assert queue.oldest() == expected.popleft()
            queue.pop()
        assert len(queue) == len(expected)
        assert queue.items() == list(expected)
        assert queue.is_full == (len(expected) == max(2, capacity))
        starts = [start for start, _ in expected if start > page]
        assert queue.first_start_after(page) == (starts[0] if starts else None)
        assert queue.nbytes == max(2, capacity) * CHUNK_BYTES


@pytest.mark.parametrize(("chunks", "capacity", "room"), [(0, 5, 5), (3, 5, 5), (5, 5, 6), (9, 5, 10)])
def test_a_queue_made_to_hold_chunks_has_room_for_one_more(chunks: int, capacity: int, room: int) -> None:
    held = [(start, 7) for start in range(chunks)]
    queue = ChunkQueue.holding(held, capacity)
    assert queue.items() == held
    assert queue.nbytes == room * CHUNK_BYTES
    assert not queue.is_full


def test_a_push_into_a_full_queue_is_refused_by_assertion() -> None:
    queue = ChunkQueue(2)
    queue.push(1, 1)
    queue.push(2, 1)
    with pytest.raises(AssertionError, match="cycle"):
        queue.push(3, 1)
