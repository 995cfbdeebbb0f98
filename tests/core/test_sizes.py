"""Sizes in bytes, read and written."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semistream.core.errors import InvalidArgument
from semistream.core.sizes import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("4096", 4096),
        ("12B", 12),
        ("64KB", 65536),
        ("64kb", 65536),
        ("64k", 65536),
        ("64KiB", 65536),
        ("1.5 GiB", 1610612736),
        (" 256 MB ", 256 << 20),
        ("2t", 2 << 40),
        ("0.5KB", 512),
        (1, 1),
        (2**40, 2**40),
    ],
)
def test_sizes_as_people_write_them(text: int | str, expected: int) -> None:
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("size", ["", "KB", "64XB", "1e3", "-64KB", "64 K B", "1,5GB", "0x10", ".5KB", "6 4", "64KBs"])
def test_text_that_is_no_size_is_an_error_with_value_and_remedy(size: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_bytes(size, "page_bytes")
    assert str(caught.value) == f"page_bytes={size!r} is not a size: write a number of bytes or text like '64KB'"


@pytest.mark.parametrize("size", [1.5, None, True, [1], b"64KB"])
def test_what_is_neither_number_nor_text_is_an_error(size: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"memory=.* is not a size: write"):
        parse_bytes(size, "memory")


@pytest.mark.parametrize("size", [2**63, 10**400, "9" * 30 + "TB", "9" * 5000])
def test_a_size_beyond_all_files_is_an_error(size: int | str) -> None:
    with pytest.raises(InvalidArgument, match="page_bytes"):
        parse_bytes(size, "page_bytes")


@pytest.mark.parametrize("size", [0, -1, -(2**70), "0", "0KB", "0.0001KB"])
def test_less_than_one_byte_is_an_error(size: int | str) -> None:
    with pytest.raises(InvalidArgument, match="must be at least 1 byte"):
        parse_bytes(size)


def test_a_number_too_large_for_any_machine_is_still_read_or_refused_cleanly() -> None:
    with suppress(InvalidArgument):
        assert parse_bytes("9" * 400) > 0


@given(st.integers(1, 2**63 - 1))
@example(2**53 + 1)
def test_a_whole_number_of_bytes_is_itself_as_number_and_as_text(count: int) -> None:
    assert parse_bytes(count) == count
    assert parse_bytes(str(count)) == count


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        (0, "0B"),
        (1023, "1023B"),
        (1024, "1.0KB"),
        (65536, "64.0KB"),
        (1610612736, "1.5GB"),
        (3 << 40, "3.0TB"),
        (5000 << 40, "5000.0TB"),
    ],
)
def test_sizes_are_written_in_the_largest_readable_unit(count: int, expected: str) -> None:
    assert format_bytes(count) == expected


@given(st.integers(1, 2**50))
def test_a_written_size_reads_back_within_its_rounding(count: int) -> None:
    text = format_bytes(count)
    unit = 1024 ** ["B", "KB", "MB", "GB", "TB"].index(text.lstrip("0123456789."))
    assert abs(parse_bytes(text) - count) <= unit * 0.05 + 1
