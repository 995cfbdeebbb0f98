"""Join conditions other than equality: ``<``, ``<=``, ``>``, ``>=`` and between.

A condition relates one stream column to one or two master columns. As in SQL, NULL on either side satisfies no
condition. `between` can read a NULL bound as an open end, as in the validity intervals of slowly changing dimensions.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from semistream.core.errors import InvalidArgument

__all__ = ["Between", "Closed", "Comparator", "Comparison", "Condition", "between", "compare"]

Comparator: TypeAlias = Literal["<", "<=", ">", ">="]
Closed: TypeAlias = Literal["both", "low", "high", "neither"]


@dataclass(frozen=True)
class Comparison:
    """``stream_column OP master_column``."""

    stream_column: str
    operator: Comparator
    master_column: str

    @property
    def master_columns(self) -> tuple[str, ...]:
        return (self.master_column,)

    def __str__(self) -> str:
        return f"{self.stream_column} {self.operator} {self.master_column}"


@dataclass(frozen=True)
class Between:
    """``low_column <= stream_column <= high_column``, each end closed or open."""

    stream_column: str
    low_column: str
    high_column: str
    closed: Closed
    null_is_open: bool

    @property
    def master_columns(self) -> tuple[str, ...]:
        return (self.low_column, self.high_column)

    def __str__(self) -> str:
        low = "<=" if self.closed in ("both", "low") else "<"
        high = "<=" if self.closed in ("both", "high") else "<"
        text = f"{self.low_column} {low} {self.stream_column} {high} {self.high_column}"
        return f"{text}, NULL is open" if self.null_is_open else text


Condition: TypeAlias = Comparison | Between


def compare(stream_column: str, operator: Comparator, master_column: str) -> Comparison:
    """Return the condition ``stream_column operator master_column``.

    Examples
    --------
    >>> str(compare("amount", "<=", "credit_limit"))
    'amount <= credit_limit'
    """
    if operator not in ("<", "<=", ">", ">="):
        raise InvalidArgument(f"operator={operator!r} is not a comparison: use '<', '<=', '>' or '>='")
    return Comparison(stream_column, operator, master_column)


def between(
    stream_column: str,
    low_column: str,
    high_column: str,
    *,
    closed: Closed = "both",
    null_is_open: bool = False,
) -> Between:
    """Return the condition that the stream column lies between two master columns.

    Parameters
    ----------
    closed
        Which ends belong to the interval: ``"both"``, ``"low"``, ``"high"`` or ``"neither"``.
    null_is_open
        Whether a NULL bound means "no bound" (a row that is still valid) instead of "matches nothing".

    Examples
    --------
    >>> str(between("ts", "valid_from", "valid_to", closed="low", null_is_open=True))
    'valid_from <= ts < valid_to, NULL is open'
    """
    if closed not in ("both", "low", "high", "neither"):
        raise InvalidArgument(f"closed={closed!r} is unknown: use 'both', 'low', 'high' or 'neither'")
    return Between(stream_column, low_column, high_column, closed, null_is_open)
