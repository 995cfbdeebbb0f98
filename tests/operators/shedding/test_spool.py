"""Shed tuples come back from disk in the order they went, all of them, or an error says which file is damaged."""

import errno
import os
import tempfile
import tracemalloc
from collections import deque
from contextlib import closing
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import (
    DamagedSpool,
    InvalidArgument,
    OperatorMisuse,
    SpoolWriteFailed,
    UnsupportedType,
)
from semistream.operators.shedding.spool import DiskSpool

SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])


def _batch(values: list[int], width: int = 3) -> pa.RecordBatch:
    texts = [None if value % 5 == 0 else f"{value}".rjust(width, ".") for value in values]
    return pa.record_batch([pa.array(values, pa.int64()), pa.array(texts, pa.string())], schema=SCHEMA)


def _numbers(values: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    return np.array(values, dtype=np.int64)


def _put(spool: DiskSpool, values: list[int], width: int = 3) -> int:
    return spool.put(_batch(values, width), _numbers([value * 2 for value in values]))


def _take(spool: DiskSpool, max_rows: int) -> list[int]:
    batch, numbers = spool.take(max_rows)
    assert batch.schema.equals(SCHEMA)
    values: list[int] = batch.column("k").to_pylist()
    assert numbers.tolist() == [value * 2 for value in values]
    return values


def _take_all(spool: DiskSpool) -> list[int]:
    values: list[int] = []
    while spool.num_rows:
        values += _take(spool, 1000)
    return values


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("*") if path.is_file())


_actions = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(0, 60), st.sampled_from([0, 40, 900])),
        st.tuples(st.just("take"), st.integers(0, 80), st.just(0)),
        st.tuples(st.just("restore"), st.just(0), st.just(0)),
    ),
    max_size=25,
)


@given(
    _actions,
    st.sampled_from([600, 5_000, 10**6]),
    st.sampled_from([400, 2_000]),
    st.sampled_from([500, 3_000, 10**6]),
    st.randoms(use_true_random=False),
)
def test_a_spool_equals_a_bounded_queue(
    actions: list[tuple[str, int, int]], max_bytes: int, message_bytes: int, segment_bytes: int, random: Random
) -> None:
    def new_spool() -> DiskSpool:
        return DiskSpool(SCHEMA, max_bytes=max_bytes, message_bytes=message_bytes, segment_bytes=segment_bytes)

    model: deque[int] = deque()
    spool, made = new_spool(), 0
    try:
        for action, count, width in actions:
            if action == "put":
                values = list(range(made, made + count))
                made += count
                random.shuffle(values)
                taken = _put(spool, values, width)
                assert 0 <= taken <= count
                model.extend(values[:taken])
            elif action == "take":
                wanted = min(count, len(model))
                while wanted:
                    got = _take(spool, wanted)
                    assert got == [model.popleft() for _ in got]
                    assert got
                    wanted -= len(got)
            else:
                state = spool.state()
                assert state.column("k").to_pylist() == list(model)
                spool.close()
                spool = new_spool()
                spool.set_state(state)
            spool._check()
            assert spool.num_rows == len(model)
            if model:  # the numbers, 3,000 at most, are counted in 1,024 ranges
                assert spool.oldest_number is not None
                assert min(model) * 2 - 4 < spool.oldest_number <= min(model) * 2
            else:
                assert spool.oldest_number is None
        assert _take_all(spool) == list(model)
    finally:
        spool.close()


def test_what_does_not_fit_is_refused_and_fits_when_space_was_given_back(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path, 20_000, message_bytes=1_000) as spool:
        values = list(range(5_000))
        taken = _put(spool, values)
        assert 200 < taken < 5_000
        assert spool.disk_bytes > 19_000
        assert _put(spool, values[taken:]) < 30
        rest = spool.num_rows
        assert _put(spool, values[rest:]) == 0
        full_files = _files(tmp_path)
        assert len(full_files) >= 6
        for _ in range(rest // 2):
            assert len(_take(spool, 1)) == 1
        assert len(_files(tmp_path)) < len(full_files)
        assert _put(spool, values[rest:]) > 50
        assert spool.disk_bytes <= 20_000


def test_large_puts_become_messages_that_fit_the_memory_share(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path, message_bytes=4_000) as spool:
        before = spool.memory_bytes
        assert _put(spool, list(range(10_000)), width=20) == 10_000
        at = 0
        while spool.num_rows:
            batch, _ = spool.take(10**6)
            assert 50 < batch.num_rows < 200 or not spool.num_rows
            assert batch.get_total_buffer_size() <= 4_000
            assert batch.column("k").to_pylist() == list(range(at, at + batch.num_rows))
            at += batch.num_rows
            assert spool.memory_bytes == before


def test_nested_values_that_differ_from_their_average_stay_within_a_message(tmp_path: Path) -> None:
    schema = pa.schema([("tags", pa.list_(pa.int64()))])
    lists = [list(range(200)) if i < 20 else [] for i in range(400)]
    with DiskSpool(schema, tmp_path, message_bytes=8_000) as spool:
        assert spool.put(pa.record_batch({"tags": lists}, schema=schema), _numbers(list(range(400)))) == 400
        found: list[list[int]] = []
        while spool.num_rows:
            batch, _ = spool.take(1)
            spool._check()
            found += batch.column("tags").to_pylist()
        assert found == lists


def test_a_tuple_wider_than_a_message_goes_alone(tmp_path: Path) -> None:
    texts = ["a", "b" * 50_000, "c", "d" * 50_000]
    with DiskSpool(SCHEMA, tmp_path, message_bytes=1_000) as spool:
        before = spool.memory_bytes
        batch = pa.record_batch([pa.array(range(4)), pa.array(texts)], schema=SCHEMA)
        assert spool.put(batch, _numbers([0, 2, 4, 6])) == 4
        for text in texts:
            assert spool.take(4)[0].column("text").to_pylist() == [text]
            spool._check()
            assert spool.memory_bytes == before


def test_memory_does_not_grow_with_what_is_inside(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path, "64MB") as spool:
        before = spool.memory_bytes
        assert before < 256 << 10
        for start in range(0, 3_000):
            assert _put(spool, [start]) == 1
        assert spool.memory_bytes == before
        assert _take_all(spool) == list(range(3_000))


def test_the_shortest_messages_fill_a_spool_without_overflow_of_its_index(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int8())])
    one = pa.record_batch({"k": pa.array([1], pa.int8())})
    with DiskSpool(schema, tmp_path, "2MB") as spool:
        put = 0
        while spool.put(one, _numbers([put])):
            put += 1
        assert put > 5_000
        spool._check()


def test_the_index_is_counted_in_full(tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        with DiskSpool(SCHEMA, tmp_path, "400KB", message_bytes=500, segment_bytes=500) as spool:
            before, _ = tracemalloc.get_traced_memory()
            assert 0 < _put(spool, list(range(10_000))) < 10_000
            used = tracemalloc.get_traced_memory()[0] - before
            assert len(_files(tmp_path)) > 400
            assert used < spool.memory_bytes
    finally:
        tracemalloc.stop()


def test_the_oldest_number_follows_a_segment_that_is_read_while_it_is_written(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path) as spool:
        _put(spool, [50, 60])
        assert _take(spool, 1) == [50]
        _put(spool, [10])
        assert spool.oldest_number == 20
        _put(spool, [70])
        assert _take(spool, 1) == [60]
        assert _take(spool, 1) == [10]
        assert spool.oldest_number == 140


# --- damage -----------------------------------------------------------------------------------------------------------


def _read_whole(spool: DiskSpool) -> None:
    assert spool.state().num_rows == spool.num_rows


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path, message_bytes=500, segment_bytes=700) as spool:
        _put(spool, list(range(30)))
        files = _files(tmp_path)
        assert len(files) >= 2
        for file in files:
            raw = file.read_bytes()
            with open(file, "r+b", buffering=0) as damaged:
                for position, byte in enumerate(raw):
                    os.pwrite(damaged.fileno(), bytes([byte ^ (1 << position % 8)]), position)
                    with pytest.raises(DamagedSpool) as caught:
                        _read_whole(spool)
                    assert str(file) in str(caught.value), position
                    assert "\n" not in str(caught.value)
                    os.pwrite(damaged.fileno(), bytes([byte]), position)
        assert _take_all(spool) == list(range(30))


def _take_into(values: list[int], spool: DiskSpool) -> None:
    while spool.num_rows:
        values += _take(spool, 7)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.99])
def test_a_flipped_byte_is_noticed_by_take_each_time(tmp_path: Path, share: float) -> None:
    with DiskSpool(SCHEMA, tmp_path, message_bytes=500) as spool:
        _put(spool, list(range(60)))
        (file,) = _files(tmp_path)
        raw = bytearray(file.read_bytes())
        raw[int(share * len(raw))] ^= 1
        file.write_bytes(raw)
        good: list[int] = []
        for _ in range(2):
            with pytest.raises(DamagedSpool, match="restore the last snapshot"):
                _take_into(good, spool)
        assert good == list(range(len(good)))
        assert spool.num_rows == 60 - len(good)


def test_every_truncation_is_noticed_also_between_messages(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path, message_bytes=500, segment_bytes=700) as spool:
        _put(spool, list(range(30)))
        files = _files(tmp_path)
        assert len(files) >= 2
        for file in files:
            raw = file.read_bytes()
            for length in range(len(raw)):
                os.truncate(file, length)
                with pytest.raises(DamagedSpool, match=file.name):
                    _read_whole(spool)
                file.write_bytes(raw)


def test_a_file_that_took_anothers_place_is_noticed(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path, message_bytes=500, segment_bytes=500) as spool:
        _put(spool, [101], width=300)
        _put(spool, [102], width=300)
        first, second = _files(tmp_path)
        assert first.stat().st_size == second.stat().st_size
        first.write_bytes(second.read_bytes())
        with pytest.raises(DamagedSpool, match=f"{first}, .* was altered after byte 0"):
            spool.take(1)


def test_a_missing_file_is_noticed(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path, message_bytes=500, segment_bytes=500) as spool:
        _put(spool, list(range(30)))
        file = _files(tmp_path)[0]
        file.unlink()
        with pytest.raises(DamagedSpool, match=rf"{file}, .* cannot be read \(No such file"):
            spool.take(1)
        with pytest.raises(DamagedSpool):
            spool.state()


# --- a disk that takes nothing more -----------------------------------------------------------------------------------


class _FullDisk:
    """Writes until ``free`` bytes are used, as a disk would: the last write is a part."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
        self.free = free
        self._pwrite = os.pwrite
        monkeypatch.setattr(os, "pwrite", self)

    def __call__(self, fd: int, content: memoryview, offset: int) -> int:
        if self.free == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._pwrite(fd, content[: self.free], offset)
        self.free -= written
        return written


@pytest.mark.parametrize("free", [0, 20, 100, 499, 2_345])
@pytest.mark.parametrize("segment_bytes", [500, 10**6])
def test_a_full_disk_is_one_clear_error_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, segment_bytes: int
) -> None:
    with DiskSpool(SCHEMA, tmp_path, message_bytes=500, segment_bytes=segment_bytes) as spool:
        assert _put(spool, list(range(30))) == 30
        disk = _FullDisk(monkeypatch, free)
        more = list(range(30, 430))
        # Rows that were written before the disk was full are accepted; the error comes when there are none.
        accepted = 30 + (_put(spool, more) if free > 400 else 0)
        with pytest.raises(SpoolWriteFailed) as caught:
            _put(spool, more[accepted - 30 :])
        assert str(tmp_path) in str(caught.value)
        assert "No space left on device" in str(caught.value)
        assert f"{accepted} in" in str(caught.value)
        spool._check()
        assert spool.num_rows == accepted
        assert _take(spool, 3) == [0, 1, 2]
        disk.free = 10**6
        assert _put(spool, [accepted, accepted + 1]) == 2
        assert _take_all(spool) == list(range(3, accepted + 2))


def test_a_segment_that_cannot_be_made_is_the_same_error(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path) as spool:
        (private,) = tmp_path.iterdir()
        private.rmdir()
        with pytest.raises(SpoolWriteFailed, match="No such file or directory"):
            _put(spool, [1])
        assert spool.num_rows == 0


# --- nothing is left behind -------------------------------------------------------------------------------------------


def test_closing_removes_all_files_and_ends_the_use(tmp_path: Path) -> None:
    spool = DiskSpool(SCHEMA, tmp_path, segment_bytes=500, message_bytes=500)
    _put(spool, list(range(100)))
    _take(spool, 1)
    assert _files(tmp_path)
    spool.close()
    spool.close()
    assert list(tmp_path.iterdir()) == []
    for call in (lambda: _put(spool, [1]), lambda: spool.take(1), spool.state):
        with pytest.raises(OperatorMisuse, match="closed spool"):
            call()


def test_an_empty_spool_has_no_files(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path) as spool:
        for start in (0, 10):
            _put(spool, list(range(start, start + 3)))
            assert _take(spool, 10) == list(range(start, start + 3))
            assert _files(tmp_path) == []
            assert spool.disk_bytes == 0
            assert spool.oldest_number is None


def test_files_go_to_the_systems_place_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with DiskSpool(SCHEMA) as spool:
        _put(spool, [1])
        assert len(_files(tmp_path)) == 1
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_with_the_arguments_is_said_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedType, match="'d' has type dictionary"):
        DiskSpool(pa.schema([("d", pa.dictionary(pa.int32(), pa.string()))]), tmp_path)
    with pytest.raises(InvalidArgument, match="max_bytes='much'"):
        DiskSpool(SCHEMA, tmp_path, "much")
    with pytest.raises(InvalidArgument, match=r"directory='.*nowhere'.*No such file.*writable"):
        DiskSpool(SCHEMA, tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_snapshot_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with DiskSpool(SCHEMA, tmp_path) as large, DiskSpool(SCHEMA, tmp_path, 1_000) as small:
        _put(large, list(range(1_000)))
        with pytest.raises(InvalidArgument, match=r"spool_bytes=1000 is too small for the 1000 shed tuples"):
            small.set_state(large.state())


def test_a_stream_may_use_any_column_name(tmp_path: Path) -> None:
    schema = pa.schema([("", pa.int64()), ("number", pa.int64())])
    with closing(DiskSpool(schema, tmp_path)) as spool:
        spool.put(pa.record_batch([pa.array([5]), pa.array([6])], schema=schema), _numbers([7]))
        batch, numbers = spool.take(1)
        assert batch.to_pylist() == [{"": 5, "number": 6}]
        assert numbers.tolist() == [7]
