"""A spill file gives back every message that it took, or an error says which file is damaged or full."""

import errno
import os
import re
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import DamagedSpool, SpoolWriteFailed
from semistream.state.spill_file import HEADER_BYTES, SpillFile

SCHEMA = pa.schema([("k", pa.int64()), ("text", pa.string())])


def _batch(values: list[int]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.int64()), pa.array([f"t{v}" for v in values])], schema=SCHEMA)


def _values(file: SpillFile, offset: int = 0) -> list[list[int]]:
    return [batch.column("k").to_pylist() for batch in file.batches(SCHEMA, offset)]


_actions = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(0, 10**6), max_size=20)),
        st.tuples(st.just("read"), st.integers(0, 100)),
        st.tuples(st.just("close_descriptor"), st.none()),
        st.tuples(st.just("remove"), st.none()),
    ),
    max_size=30,
)


@given(_actions, st.booleans())
def test_a_spill_file_equals_a_list(actions: list[tuple[str, object]], named: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/spill" if named else None
        file = SpillFile("rows", path)
        messages: list[tuple[int, list[int]]] = []
        for action, argument in actions:
            if action == "append":
                assert isinstance(argument, list)
                messages.append((file.append(_batch(argument).serialize()), argument))
            elif action == "read" and messages:
                assert isinstance(argument, int)
                position = argument % len(messages)
                message, after = file.read(messages[position][0])
                rows = pa.ipc.read_record_batch(message, SCHEMA)
                assert rows.column("k").to_pylist() == messages[position][1]
                assert after == (messages[position + 1][0] if position + 1 < len(messages) else file.nbytes)
                assert _values(file, messages[position][0]) == [values for _, values in messages[position:]]
            elif action == "close_descriptor" and named:
                file.close_descriptor()
            elif action == "remove":
                file.remove()
                messages = []
            assert _values(file) == [values for _, values in messages]
            assert (file.nbytes == 0) == (not messages)
            sizes = [entry.stat().st_size for entry in os.scandir(folder)]
            assert sizes == ([file.nbytes] if named and messages else [])
        file.remove()
        file.remove()
        assert os.listdir(folder) == []


def test_a_file_without_a_name_lies_in_the_systems_folder_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    file = SpillFile("rows")
    file.append(b"content")
    assert list(tmp_path.iterdir()) == [], "a process that is killed leaves nothing behind"
    assert file.read(0)[0].to_pybytes() == b"content"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(SpoolWriteFailed, match=rf"file in {tmp_path}/nowhere takes no more rows \(No such .* TMPDIR"):
        SpillFile("rows").append(b"content")
    file.remove()


def test_a_message_is_read_into_memory_of_its_own_size() -> None:
    file = SpillFile("rows")
    before = pa.total_allocated_bytes()
    large = _batch(list(range(10_000))).serialize()
    file.append(large)
    file.append(_batch([1]).serialize())
    offset = HEADER_BYTES + large.size
    del large
    assert pa.total_allocated_bytes() == before, "nothing waits in memory to be written"
    message, _ = file.read(offset)
    assert pa.total_allocated_bytes() - before <= message.size + 64
    file.remove()


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> SpillFile:
    """A file of two messages, closed, as it waits while others are written."""
    file = SpillFile("rows", str(tmp_path / "spill"), "directory=")
    file.append(_batch([1, 2, 3]).serialize())
    file.append(_batch([4]).serialize())
    file.close_descriptor()
    return file


def _assert_damaged(file: SpillFile, how: str) -> None:
    for _ in range(2):
        with pytest.raises(
            DamagedSpool,
            match=rf"^{file.path}, which holds rows, {how}: restore the last snapshot .* directory= on a disk that is",
        ):
            _values(file)
    file.close_descriptor()


def test_every_flipped_bit_is_noticed(file: SpillFile, tmp_path: Path) -> None:
    content = (tmp_path / "spill").read_bytes()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        (tmp_path / "spill").write_bytes(damaged)
        _assert_damaged(file, r"was altered (near|after) byte \d+")


def test_every_truncation_is_noticed(file: SpillFile, tmp_path: Path) -> None:
    for length in reversed(range(file.nbytes)):
        os.truncate(tmp_path / "spill", length)
        _assert_damaged(file, f"ends at byte {length}, before what was written")


def test_a_message_in_the_place_of_another_is_noticed(file: SpillFile, tmp_path: Path) -> None:
    other = SpillFile("rows", str(tmp_path / "other"))
    for values in ([1, 2, 3], [4]):
        other.append(_batch(values).serialize())
    os.replace(tmp_path / "other", tmp_path / "spill")
    _assert_damaged(file, "was altered after byte 0")
    other.remove()
    twice = SpillFile("rows", str(tmp_path / "twice"))
    for value in (1, 2):
        second = twice.append(_batch([value]).serialize())
    content = (tmp_path / "twice").read_bytes()
    (tmp_path / "twice").write_bytes(content[second:] + content[:second])
    with pytest.raises(DamagedSpool, match="was altered after byte 0"):
        twice.read(0)
    twice.remove()


def test_a_removed_file_is_noticed(file: SpillFile, tmp_path: Path) -> None:
    (tmp_path / "spill").unlink()
    _assert_damaged(file, r"cannot be read \(No such file or directory\)")


def test_an_open_file_outlives_its_name(tmp_path: Path) -> None:
    file = SpillFile("rows", str(tmp_path / "spill"))
    file.append(_batch([1, 2]).serialize())
    (tmp_path / "spill").unlink()
    file.append(_batch([3]).serialize())
    assert _values(file) == [[1, 2], [3]]
    file.remove()


# --- a disk that takes no more ----------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("free", [0, 5, HEADER_BYTES, HEADER_BYTES + 9])
@pytest.mark.parametrize("before", [[], [[1, 2]], [[1, 2], [3]]])
@pytest.mark.parametrize("named", [False, True])
def test_a_full_disk_leaves_the_file_as_it_was(
    before: list[list[int]], free: int, named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = SpillFile("rows", str(tmp_path / "spill") if named else None)
    for values in before:
        file.append(_batch(values).serialize())
    nbytes = file.nbytes
    disk = _FullDisk(monkeypatch, free)
    name = re.escape(str(tmp_path / "spill") if named else f"a file in {tempfile.gettempdir()}")
    with pytest.raises(
        SpoolWriteFailed,
        match=rf"^{name} takes no more rows \(No space left on device\): free space there, give .* TMPDIR name another",
    ):
        file.append(_batch([7]).serialize())
    assert file.nbytes == nbytes
    assert [entry.stat().st_size for entry in tmp_path.iterdir()] == ([nbytes] if named and before else [])
    assert _values(file) == before
    disk.free = 10**6
    file.append(_batch([8]).serialize())
    assert _values(file) == [*before, [8]]
    file.remove()
