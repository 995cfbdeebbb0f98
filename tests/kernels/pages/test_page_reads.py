"""Reads and checksums by address do what the functions of Python do."""

import os
from pathlib import Path

import numpy as np
import pytest
import xxhash

from semistream.kernels.pages.page_reads import first_altered, read_stretches
from semistream.storage.files import c_functions
from semistream.storage.files.random_file import LocalFile

needs_preadv2 = pytest.mark.skipif(not c_functions.PREADV2, reason="the platform has no preadv2")


@needs_preadv2
def test_stretches_tell_how_many_bytes_came(tmp_path: Path) -> None:
    content = np.random.default_rng(1).integers(0, 256, 100_000).astype(np.uint8)
    path = tmp_path / "file"
    path.write_bytes(content.tobytes())
    offsets, lengths = np.array([0, 5_000, 99_990, 77]), np.array([10, 8_000, 20, 1])
    memory = np.zeros(lengths.sum(), dtype=np.uint8)
    begins = np.cumsum(lengths) - lengths
    got = np.zeros(4, dtype=np.int64)
    file = os.open(path, os.O_RDONLY)
    try:
        targets = begins.astype(np.uint64) + np.uint64(memory.ctypes.data)
        read_stretches(np.uint64(c_functions.PREADV2), 0, file, offsets, targets, lengths, got)
    finally:
        os.close(file)
    assert got.tolist() == [10, 8_000, 10, 1]  # the third goes over the end
    for offset, length, begin in zip(offsets, got, begins, strict=True):
        assert (memory[begin : begin + length] == content[offset : offset + length]).all()


@needs_preadv2
def test_a_file_that_is_closed_reads_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    file = LocalFile(str(tmp_path / "file"))
    os.close(file._fd)
    got = np.ones(1, dtype=np.int64)
    memory = np.ones(100, dtype=np.uint8)
    targets = np.array([memory.ctypes.data], dtype=np.uint64)
    read_stretches(np.uint64(c_functions.PREADV2), 0, file._fd, np.array([0]), targets, np.array([100]), got)
    file._fd = -1
    assert got[0] < 0
    assert memory.all()


@pytest.mark.skipif(not c_functions.DIGEST, reason="the xxhash package does not show its functions")
def test_the_first_altered_page_is_found() -> None:
    memory = np.random.default_rng(2).integers(0, 256, 64_000).astype(np.uint8)
    begins = np.array([0, 1, 300, 9_000, 20_000])
    lengths = np.array([1, 200, 8_000, 11_000, 44_000])
    parts = [memory[begin : begin + length] for begin, length in zip(begins, lengths, strict=True)]
    checksums = np.array([xxhash.xxh3_64_intdigest(part.tobytes()) for part in parts], dtype=np.uint64)
    addresses = begins.astype(np.uint64) + np.uint64(memory.ctypes.data)
    assert first_altered(np.uint64(c_functions.DIGEST), addresses, lengths, checksums) == -1
    memory[19_999] ^= 1
    assert first_altered(np.uint64(c_functions.DIGEST), addresses, lengths, checksums) == 3
