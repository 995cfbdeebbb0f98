"""Tuples behind callables: what goes out comes back with its number, and other answers are one clear error."""

from collections.abc import Callable
from typing import cast

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import BrokenShedStore, OperatorMisuse
from semistream.operators.shedding.shed_store import CallableStore, TakeTuples
from semistream.operators.shedding.spool import DiskSpool

SCHEMA = pa.schema([("k", pa.int64()), pa.field("text", pa.string(), nullable=False)])


def _batch(values: list[int], width: int = 1) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64()), pa.array([f"{v}" * width for v in values])], schema=SCHEMA)


def _numbers(values: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, dtype=np.int64)


class _Network:
    """Gives back the newest tuples first."""

    def __init__(self) -> None:
        self.rows: list[pa.RecordBatch] = []
        self.asked: list[int] = []

    def put(self, batch: pa.RecordBatch) -> None:
        self.rows += [batch.slice(row, 1) for row in range(batch.num_rows)]

    def take(self, max_rows: int) -> pa.RecordBatch:
        self.asked.append(max_rows)
        taken, self.rows = self.rows[-max_rows:], self.rows[:-max_rows]
        return pa.concat_batches(taken)

    def store(self, schema: pa.Schema = SCHEMA, message_bytes: int = 1 << 16) -> CallableStore:
        return CallableStore(schema, put=self.put, take=self.take, message_bytes=message_bytes)


def _answering(answer: Callable[[int], object]) -> CallableStore:
    """A store with two tuples out whose take gives ``answer``."""
    store = CallableStore(SCHEMA, put=lambda batch: None, take=cast(TakeTuples, answer))
    store.put(_batch([1, 2]), _numbers([10, 11]))
    return store


def test_both_stores_are_shed_stores() -> None:
    with DiskSpool(SCHEMA) as spool:
        stores: list[DiskSpool | CallableStore] = [spool, _Network().store()]
        for store in stores:
            assert store.put(_batch([1, 2, 3]), _numbers([7, 5, 6])) == 3
            assert (store.num_rows, store.oldest_number) == (3, 5)
            batch, numbers = store.take(2)
            assert batch.schema.equals(SCHEMA)
            assert batch.num_rows == numbers.size == 2
            assert store.num_rows == 1
            batch, numbers = store.take(2)
            assert batch.num_rows == 1
            assert store.take(2)[0].num_rows == 0
            assert store.oldest_number is None
            assert store.state().num_rows == 0
            assert store.disk_bytes == 0


def test_tuples_come_back_with_their_numbers_in_any_order() -> None:
    network = _Network()
    store = network.store()
    assert store.put(_batch([]), _numbers([])) == 0
    store.put(_batch([1, 2, 3]), _numbers([10, 11, 12]))
    store.put(_batch([4]), _numbers([13]))
    assert store.oldest_number == 10
    batch, numbers = store.take(2)
    assert (batch.column("k").to_pylist(), numbers.tolist()) == ([3, 4], [12, 13])
    assert (store.num_rows, store.oldest_number) == (2, 10)
    assert store.take(0)[0].num_rows == 0
    batch, numbers = store.take(100)
    assert (batch.column("k").to_pylist(), numbers.tolist()) == ([1, 2], [10, 11])
    assert network.asked == [2, 2], "never more than are out"


def test_no_more_is_asked_for_than_memory_was_set_aside_for() -> None:
    network = _Network()
    store = network.store(message_bytes=1_000)
    before = store.memory_bytes
    store.put(_batch(list(range(100, 150)), width=30), _numbers(list(range(50))))
    while store.num_rows:
        batch, _ = store.take(50)
        assert 3 < batch.num_rows < 10 or not store.num_rows
        assert batch.get_total_buffer_size() <= 1_000
        assert store.memory_bytes == before
    store.put(_batch([7, 8], width=5_000), _numbers([1, 2]))
    assert store.take(2)[0].num_rows == 1


def test_what_came_back_keeps_nothing_else_alive() -> None:
    many = pa.concat_batches([_out([1, 2], [10, 11])] * 500)
    batch, _ = _answering(lambda rows: many.slice(0, rows)).take(2)
    assert batch.get_total_buffer_size() < 1_000


def test_the_column_of_numbers_has_a_name_that_the_stream_does_not_use() -> None:
    schema = pa.schema([("arrival_number", pa.int64()), ("_arrival_number", pa.string())])
    network = _Network()
    store = network.store(schema)
    assert store.number_column == "__arrival_number"
    store.put(pa.record_batch([pa.array([1]), pa.array(["a"])], schema=schema), _numbers([5]))
    assert network.rows[0].to_pylist() == [{"arrival_number": 1, "_arrival_number": "a", "__arrival_number": 5}]
    batch, numbers = store.take(1)
    assert batch.to_pylist() == [{"arrival_number": 1, "_arrival_number": "a"}]
    assert numbers.tolist() == [5]


def test_a_put_that_raises_took_nothing() -> None:
    def put(batch: pa.RecordBatch) -> None:
        raise ConnectionResetError("the peer went away")

    store = CallableStore(SCHEMA, put=put, take=_Network().take)
    with pytest.raises(ConnectionResetError, match="the peer went away"):
        store.put(_batch([1]), _numbers([1]))
    assert (store.num_rows, store.oldest_number) == (0, None)


def _out(values: list[int], numbers: list[int]) -> pa.RecordBatch:
    columns = {"k": pa.array(values, pa.int64()), "text": [str(v) for v in values], "arrival_number": numbers}
    return pa.record_batch(columns)


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (_out([1, 2, 2], [10, 11, 11]), "3 rows when asked for 1 to 2"),
        (_out([], []).cast(_out([1], [1]).schema), "0 rows when asked"),
        (_batch([1]), r"\[k int64, text string\] where \[k int64, text string, arrival_number int64\] went out"),
        (pa.record_batch({"k": ["1"], "text": ["1"], "arrival_number": [10]}), r"\[k string, "),
        (_out([1], [12]), r"arrival numbers that are not out, among \[12\]"),
        (_out([1, 1], [10, 10]), r"arrival numbers that are not out"),
        (pa.record_batch({"k": [1], "text": ["1"], "arrival_number": pa.array([None], pa.int64())}), "a NULL in 'arr"),
        (pa.record_batch({"k": [1], "text": pa.array([None], pa.string()), "arrival_number": [10]}), "a NULL in 'text"),
        (None, "a NoneType, not a RecordBatch"),
    ],
)
def test_an_answer_that_cannot_be_right_is_one_clear_error(answer: object, what: str) -> None:
    store = _answering(lambda rows: answer)
    with pytest.raises(BrokenShedStore, match=rf"returned {what}.*; 2 tuples are out: return each tuple") as caught:
        store.take(5)
    assert "\n" not in str(caught.value)
    assert store.num_rows == 2


def test_rows_are_not_asked_for_when_none_are_out() -> None:
    network = _Network()
    assert network.store().take(3)[0].schema.equals(SCHEMA)
    assert network.asked == []


def test_what_the_network_forgot_of_the_schema_is_put_back() -> None:
    batch, numbers = _answering(lambda rows: _out([2], [11])).take(1)
    assert batch.schema.equals(SCHEMA)
    assert numbers.tolist() == [11]


def test_a_snapshot_waits_until_the_tuples_are_back() -> None:
    network = _Network()
    store = network.store()
    store.put(_batch([1, 2]), _numbers([3, 4]))
    with pytest.raises(OperatorMisuse, match=r"cannot hold the 2 shed tuples .*: step until they are back"):
        store.state()
    store.take(2)
    empty = store.state()
    other = network.store()
    other.set_state(empty)
    assert other.num_rows == 0
    store.close()


def test_a_snapshot_of_a_spool_can_go_on_behind_callables() -> None:
    network = _Network()
    store = network.store()
    with DiskSpool(SCHEMA) as spool:
        spool.put(_batch([1, 2]), _numbers([3, 4]))
        store.set_state(spool.state())
    batch, numbers = store.take(5)
    assert (batch.column("k").to_pylist(), numbers.tolist()) == ([1, 2], [3, 4])
