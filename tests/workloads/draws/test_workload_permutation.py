"""Permutations without a table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semistream.core.errors import InvalidArgument
from semistream.workloads.draws.permutation import Permutation


@given(st.integers(1, 5000), st.integers(0, 2**32))
def test_one_to_one(size: int, seed: int) -> None:
    assert np.array_equal(np.sort(Permutation(size, seed)(np.arange(size))), np.arange(size))


def test_large_domains_need_no_memory() -> None:
    elements = Permutation(2**62, 1)(np.arange(1000))
    assert np.unique(elements).size == 1000
    assert 0 <= elements.min() <= elements.max() < 2**62


@pytest.mark.parametrize("size", [0, 2**62 + 1])
def test_size_is_checked(size: int) -> None:
    with pytest.raises(InvalidArgument, match="size="):
        Permutation(size, 0)
