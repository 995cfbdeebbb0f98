"""Results that wait come back by arrival number, whether they waited in memory or on disk."""

import errno
import os
import tempfile
from collections import defaultdict
from contextlib import closing
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import SpoolWriteFailed
from semistream.state.reorder import ReorderBuffer

SCHEMA = pa.schema([("value", pa.int64()), ("text", pa.string())])
MAX_ROWS = 16


def _batch(values: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64()), pa.array([f"t{v}" for v in values])], schema=SCHEMA)


class _Files:
    """Temporary files, which have no names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._made: list[IO[bytes]] = []
        self._make = tempfile.TemporaryFile
        monkeypatch.setattr(tempfile, "TemporaryFile", self)

    def __call__(self, **options: Any) -> IO[bytes]:
        self._made.append(self._make(**options))
        return self._made[-1]

    def __len__(self) -> int:
        """How many are open: a closed one is gone."""
        return sum(not file.closed for file in self._made)


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> _Files:
    return _Files(monkeypatch)


class _Model:
    """Values by arrival number, and what was released so far."""

    def __init__(self) -> None:
        self.waiting: defaultdict[int, list[int]] = defaultdict(list)
        self.next_value = 0

    def add(self, numbers: list[int]) -> list[int]:
        values = list(range(self.next_value, self.next_value + len(numbers)))
        self.next_value += len(numbers)
        for number, value in zip(numbers, values, strict=True):
            self.waiting[number].append(value)
        return values

    def check_release(self, buffer: ReorderBuffer, before: int) -> None:
        released: list[int] = []
        for batch in buffer.release(before):
            assert 0 < batch.num_rows <= MAX_ROWS
            assert batch.schema.equals(SCHEMA)
            assert batch.column("text").to_pylist() == [f"t{v}" for v in batch.column("value").to_pylist()]
            released += batch.column("value").to_pylist()
        at = 0
        for number in sorted(number for number in self.waiting if number < before):
            values = self.waiting.pop(number)
            assert sorted(released[at : at + len(values)]) == values
            at += len(values)
        assert at == len(released)
        assert len(buffer) == sum(map(len, self.waiting.values()))


_numbers = st.lists(st.integers(0, 30), min_size=1, max_size=40)


@given(
    st.sampled_from([1, 2000, 20_000, 10**9]),
    st.lists(st.tuples(_numbers, st.sampled_from([0, 0, 3, 10]), st.booleans()), min_size=1, max_size=14),
)
def test_rows_leave_by_number_in_stages_and_through_snapshots(
    capacity: int, actions: list[tuple[list[int], int, bool]]
) -> None:
    model, buffer, released = _Model(), ReorderBuffer(SCHEMA, capacity, MAX_ROWS), 0
    for offsets, advance, snapshot in actions:
        numbers = [released + offset for offset in offsets]
        buffer.add(np.array(numbers, dtype=np.int64), _batch(model.add(numbers)))
        released += advance
        model.check_release(buffer, released)
        if snapshot:
            table, before = buffer.to_table(), len(buffer)
            assert table.num_rows == before == len(buffer)
            buffer.close()
            buffer = ReorderBuffer(SCHEMA, capacity, MAX_ROWS)
            buffer.add_table(table)
            assert len(buffer) == before
    model.check_release(buffer, released + 100)
    assert len(buffer) == buffer.nbytes == 0
    buffer.close()


def test_many_results_of_one_number_spill_and_come_back() -> None:
    model, buffer = _Model(), ReorderBuffer(SCHEMA, 8000, MAX_ROWS)
    for _ in range(40):
        numbers = [5] * 50 + [7]
        buffer.add(np.array(numbers, dtype=np.int64), _batch(model.add(numbers)))
    assert buffer.spilled_rows > 0
    model.check_release(buffer, 5)
    model.check_release(buffer, 6)
    assert len(buffer) == 40
    model.check_release(buffer, 8)
    buffer.close()


@pytest.mark.parametrize("before", [150, 151, 152, 153])
def test_a_snapshot_leaves_the_buffer_as_it_was_also_in_the_middle_of_a_spilled_run(before: int) -> None:
    model, buffer = _Model(), ReorderBuffer(SCHEMA, 8000, MAX_ROWS)
    numbers = list(range(300))
    buffer.add(np.array(numbers, dtype=np.int64), _batch(model.add(numbers)))
    assert buffer.spilled_rows == 300
    model.check_release(buffer, before)
    expected = [model.waiting[number][0] for number in range(before, 300)]
    for _ in range(2):
        assert sorted(buffer.to_table().column("value").to_pylist()) == expected
    buffer.resize(8000)  # drops the page in memory
    model.check_release(buffer, 300)
    buffer.close()


@pytest.mark.parametrize(
    ("capacity", "rows_per_add", "adds"), [(50_000, 1, 2000), (50_000, 20, 800), (300_000, 256, 400)]
)
def test_memory_stays_within_capacity_however_much_waits(capacity: int, rows_per_add: int, adds: int) -> None:
    rng = np.random.default_rng(0)
    with closing(ReorderBuffer(SCHEMA, capacity, MAX_ROWS)) as buffer:
        for add in range(adds):
            buffer.add(rng.integers(0, 10**6, rows_per_add), _batch([add] * rows_per_add))
            assert buffer.nbytes <= capacity
        assert len(buffer) == adds * rows_per_add


def test_the_number_of_temporary_files_does_not_grow_with_every_add(files: _Files) -> None:
    with closing(ReorderBuffer(SCHEMA, 50_000, MAX_ROWS)) as buffer:
        for add in range(1500):
            buffer.add(np.arange(20), _batch([add] * 20))
        assert 0 < len(files) <= 256


def test_temporary_files_are_removed_when_released_and_when_closed(files: _Files) -> None:
    buffer = ReorderBuffer(SCHEMA, 1000, MAX_ROWS)
    for _ in range(5):
        buffer.add(np.arange(100), _batch(list(range(100))))
    assert len(files) == 5
    for _ in buffer.release(100):
        pass
    assert len(files) == 0
    buffer.add(np.arange(100), _batch(list(range(100))))
    assert len(files) == 1
    buffer.close()
    assert len(files) == 0
    buffer.close()


def test_nothing_is_written_while_memory_suffices(files: _Files) -> None:
    buffer = ReorderBuffer(SCHEMA, 10**6, MAX_ROWS)
    buffer.add(np.arange(100), _batch(list(range(100))))
    buffer.add(np.empty(0, dtype=np.int64), _batch([]))
    assert len(buffer) == 100
    assert buffer.spilled_rows == 0
    assert len(files) == 0
    buffer.close()


def test_memory_comes_free_as_rows_are_released() -> None:
    """A slice keeps the whole buffers of its batch alive, and they are counted."""
    buffer = ReorderBuffer(SCHEMA, 10**9, MAX_ROWS)
    buffer.add(np.arange(1000), _batch(list(range(1000))))
    before = buffer.nbytes
    for _ in buffer.release(999):
        pass
    assert len(buffer) == 1
    assert buffer.nbytes <= before
    for _ in buffer.release(1000):
        pass
    assert buffer.nbytes == 0


def test_a_full_disk_is_one_clear_error_and_loses_nothing(files: _Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    model, buffer = _Model(), ReorderBuffer(SCHEMA, 1000, MAX_ROWS)
    numbers = list(range(100))
    with monkeypatch.context() as broken:
        broken.setattr(os, "pwrite", full)
        with pytest.raises(SpoolWriteFailed, match=r"takes no more results .* \(No space left on device\): free space"):
            buffer.add(np.array(numbers, dtype=np.int64), _batch(model.add(numbers)))
    assert len(files) == 0
    model.check_release(buffer, 100)
    buffer.close()
