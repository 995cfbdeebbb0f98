"""Join conditions as text: ``amount <= credit_limit``, ``valid_from <= ts < valid_to``."""

import re

from semistream.core.conditions import Closed, Comparator, Condition, between, compare
from semistream.core.errors import InvalidArgument

__all__ = ["parse_condition"]

_COMPARATORS: dict[str, Comparator] = {"<": "<", "<=": "<=", ">": ">", ">=": ">="}
_NAME = r'\s*("[^"]+"|[^\s<>="]+)\s*'
_COMPARISON = re.compile(rf"{_NAME}(<=?|>=?){_NAME}")
_RANGE = re.compile(rf"{_NAME}(<=?|>=?){_NAME}(<=?|>=?){_NAME}")
_CLOSED: dict[tuple[bool, bool], Closed] = {
    (True, True): "both",
    (True, False): "low",
    (False, True): "high",
    (False, False): "neither",
}


def parse_condition(text: str, *, null_is_open: bool = False) -> Condition:
    """Return the condition that ``text`` writes; names with blanks or signs stand in double quotes.

    Examples
    --------
    >>> parse_condition("amount <= credit_limit")
    Comparison(stream_column='amount', operator='<=', master_column='credit_limit')
    >>> str(parse_condition("valid_to > ts >= valid_from", null_is_open=True))
    'valid_from <= ts < valid_to, NULL is open'
    """
    if matched := _RANGE.fullmatch(text):
        low, first, stream, second, high = matched.groups()
        if first[0] == second[0]:
            if first[0] == ">":
                low, first, second, high = high, second, first, low
            closed = _CLOSED[first.endswith("="), second.endswith("=")]
            return between(_bare(stream), _bare(low), _bare(high), closed=closed, null_is_open=null_is_open)
    elif matched := _COMPARISON.fullmatch(text):
        if null_is_open:
            raise InvalidArgument(f"null_is_open goes with a range, and condition={text!r} is none: leave it out")
        stream, sign, master = matched.groups()
        return compare(_bare(stream), _COMPARATORS[sign], _bare(master))
    raise InvalidArgument(
        f"condition={text!r} cannot be read: write 'STREAM <= MASTER' (or <, >, >=), "
        "or a range like 'MASTER <= STREAM < MASTER'"
    )


def _bare(name: str) -> str:
    return name.strip('"')
