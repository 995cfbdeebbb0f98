"""Queues of streams: what comes out is what went in, and their size is that of what waits."""

from hypothesis import given
from hypothesis import strategies as st

from semistream.stream_joins.parts.join_key import LEFT
from semistream.stream_joins.parts.queues import StreamQueue
from tests.stream_joins.streams import batch


@given(sizes=st.lists(st.integers(0, 9), max_size=6), takes=st.lists(st.integers(1, 12), max_size=12))
def test_a_queue_knows_what_waits(sizes: list[int], takes: list[int]) -> None:
    queue, waiting = StreamQueue(), list[int]()
    for size in sizes:
        keys = list(range(len(waiting), len(waiting) + size))
        queue.append(batch(LEFT, keys, len(waiting), []))
        waiting += keys
    for most_rows in takes:
        if not len(queue):
            break
        taken = queue.take(most_rows).rows.column(0).to_pylist()
        assert len(taken) <= most_rows
        assert taken == waiting[: len(taken)]
        del waiting[: len(taken)]
        assert queue.num_rows == len(waiting) == sum(len(some) for some in queue)
        assert queue.nbytes == sum(some.rows.nbytes for some in queue)
    while len(queue):
        first = queue.take(100).rows.column(0).to_pylist()
        assert first == waiting[: len(first)]
        del waiting[: len(first)]
    assert queue.nbytes == queue.num_rows == len(waiting) == 0
