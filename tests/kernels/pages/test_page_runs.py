"""Runs of pages cover all that is wanted, each page once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from semistream.kernels.pages.page_runs import page_runs


@given(st.data())
def test_runs_cover_the_pages_wanted_and_only_open_ones(data: st.DataObject) -> None:
    pages = data.draw(st.integers(1, 60))
    some = st.lists(st.booleans(), min_size=pages, max_size=pages)
    is_open = np.array(data.draw(some))
    wanted = np.flatnonzero(is_open & np.array(data.draw(some)))
    lengths = np.array(data.draw(st.lists(st.integers(1, 9), min_size=pages, max_size=pages)))
    file_of = np.sort(np.array(data.draw(st.lists(st.integers(0, 3), min_size=pages, max_size=pages)))).astype(np.int32)
    before = np.cumsum(lengths) - lengths
    offsets = before - before[np.searchsorted(file_of, file_of)] + 4  # behind a header
    extent_bytes, ahead_bytes = data.draw(st.integers(1, 80)), data.draw(st.integers(0, 200))
    first, count = np.empty_like(wanted), np.empty_like(wanted)
    addresses = (~is_open & np.array(data.draw(some))).astype(np.uint64)
    is_refused = ~is_open & (addresses == 0)
    runs = page_runs(wanted, addresses, is_refused, file_of, offsets, lengths, extent_bytes, ahead_bytes, first, count)
    covered = [page for at in range(runs) for page in range(first[at], first[at] + count[at])]
    assert covered == sorted(set(covered))
    assert set(wanted.tolist()) <= set(covered)
    assert is_open[covered].all()
    for at in range(runs):
        run = slice(first[at], first[at] + count[at])
        assert len(set(file_of[run].tolist())) == 1
        assert len(set((offsets[run] // extent_bytes).tolist())) == 1
    if extent_bytes == 1 or ahead_bytes == 0:
        assert covered == wanted.tolist()
