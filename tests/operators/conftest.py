"""A test that fails leaves no operator open, whose files would fail the next ones."""

from collections.abc import Iterator

import pytest

from tests.operators.shedding import overloaded


@pytest.fixture(autouse=True)
def _closed_operators() -> Iterator[None]:
    yield
    while overloaded.MADE:
        overloaded.MADE.pop().close()
