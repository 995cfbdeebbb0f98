"""Binary search in pages against numpy, and the pairs that come out of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.kernels.pages.page_search import expand_ranges, search_pages

_codes = st.one_of(st.integers(-5, 5), st.sampled_from([-(2**63), 2**63 - 1]))


@given(st.lists(st.lists(_codes, max_size=12).map(sorted), min_size=1, max_size=5), st.data())
def test_a_code_is_found_where_numpy_finds_it(pages: list[list[int]], data: st.DataObject) -> None:
    bounds = np.cumsum([0, *(len(page) for page in pages)]).astype(np.int64)
    accesses = data.draw(st.lists(st.tuples(st.integers(0, len(pages) - 1), _codes), max_size=20))
    page_of = np.array([page for page, _ in accesses], dtype=np.int64)
    codes = np.array([code for _, code in accesses], dtype=np.int64)
    lows, highs = np.empty(codes.size, dtype=np.int64), np.empty(codes.size, dtype=np.int64)
    rows = np.array([code for page in pages for code in page], dtype=np.int64)
    search_pages(rows, bounds[page_of], bounds[page_of + 1], codes, lows, highs)
    for access, (page, code) in enumerate(accesses):
        values = np.array(pages[page], dtype=np.int64)
        assert lows[access] - bounds[page] == np.searchsorted(values, code, side="left")
        assert highs[access] - bounds[page] == np.searchsorted(values, code, side="right")


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 6)), max_size=10), st.integers(1, 5))
def test_ranges_are_expanded_completely_in_portions(ranges: list[tuple[int, int]], portion: int) -> None:
    lows = np.array([low for low, _ in ranges], dtype=np.int64)
    highs = np.array([low + length for low, length in ranges], dtype=np.int64)
    out_access, out_rows = np.empty(portion, dtype=np.int32), np.empty(portion, dtype=np.int64)
    pairs: list[tuple[int, int]] = []
    at = offset = 0
    while at < lows.size:
        at, offset, filled = expand_ranges(lows, highs, at, offset, out_access, out_rows)
        pairs += zip(out_access[:filled].tolist(), out_rows[:filled].tolist(), strict=True)
        assert filled == portion or at == lows.size
        assert len(pairs) <= sum(length for _, length in ranges)
    assert pairs == [(access, low + i) for access, (low, length) in enumerate(ranges) for i in range(length)]


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
def test_a_page_of_one_code_is_found_whole(size: int) -> None:
    lows, highs = np.empty(3, dtype=np.int64), np.empty(3, dtype=np.int64)
    rows = np.full(size, 7, dtype=np.int64)
    starts, stops = np.zeros(3, dtype=np.int64), np.full(3, size, dtype=np.int64)
    search_pages(rows, starts, stops, np.array([6, 7, 8]), lows, highs)
    assert lows.tolist() == [0, 0, size]
    assert highs.tolist() == [0, size, size]
