"""How many rows leave a join for a stream tuple."""

from semistream.cost.model import JoinCase

__all__ = ["results_per_tuple"]


def results_per_tuple(case: JoinCase) -> float:
    """Return how many rows a stream tuple becomes on average: its matches, or itself where none is asked for."""
    matched = 1 - case.stream.missing_share
    if case.spec.how == "semi":
        return matched
    if case.spec.how == "anti":
        return case.stream.missing_share
    pairs = matched * case.table.rows_per_key
    return pairs + case.stream.missing_share if case.spec.how == "left" else pairs
