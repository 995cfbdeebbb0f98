"""Settings that are numbers."""

import re

import numpy as np
import pytest

from semistream.core.arguments import require_count, require_number
from semistream.core.errors import InvalidArgument


@pytest.mark.parametrize("value", [1, 8, np.int32(3), 2**31 - 1])
@pytest.mark.parametrize("optional", [False, True])
def test_a_count_is_a_whole_number_from_one_on(value: object, optional: bool) -> None:
    require_count("w", value, optional=optional)


@pytest.mark.parametrize("value", [0, -1, 1.5, "3", True, float("nan"), [], 2**31])
@pytest.mark.parametrize("optional", [False, True])
def test_anything_else_is_refused_with_its_value(value: object, optional: bool) -> None:
    with pytest.raises(InvalidArgument, match=f"^w={re.escape(repr(value))} "):
        require_count("w", value, optional=optional)


def test_none_is_a_count_only_where_it_is_worked_out() -> None:
    require_count("w", None, optional=True)
    with pytest.raises(InvalidArgument, match=r"^w=None is not a whole number: give one, at least 1$"):
        require_count("w", None)


@pytest.mark.parametrize("value", [None, "0.2", True, []])
def test_a_number_is_no_text_and_not_nothing(value: object) -> None:
    require_number("share", 0.2)
    with pytest.raises(InvalidArgument, match=f"^share={re.escape(repr(value))} is not a number: give one$"):
        require_number("share", value)
