"""What joins counted, read from a query's progress, whatever form it has there."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from semistream.core.errors import InvalidArgument

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["ObservedMetrics", "row_by_name"]


class ObservedMetrics:
    """Metrics of one kind of join, in one micro-batch."""

    @classmethod
    def from_progress(cls, progress: object, name: str | None = None) -> "Self | None":
        """Return what a join counted in a micro-batch; None when the progress has nothing of it.

        Parameters
        ----------
        progress
            From ``query.lastProgress``, ``query.recentProgress`` or a listener's ``event.progress``.
        name
            Of the join; needed when the query has several.

        Raises
        ------
        InvalidArgument
            When the query has several joins and no name is given.
        """
        found = cls.all_from_progress(progress)
        if name is not None:
            return found.get(name)
        if len(found) > 1:
            raise InvalidArgument(f"the query has several joins: give name= as one of {', '.join(map(repr, found))}")
        return next(iter(found.values()), None)

    @classmethod
    def all_from_progress(cls, progress: object) -> "dict[str, Self]":
        """Return the metrics of all joins of this kind of a query in one micro-batch, by name."""
        batch_id, observed = _observed_in(progress)
        found = {name: cls.from_observed(name, row, batch_id) for name, row in observed.items()}
        return {name: metrics for name, metrics in found.items() if metrics is not None}

    @classmethod
    @abstractmethod
    def from_observed(cls, name: str, fields: object, batch_id: int | None = None) -> "Self | None":
        """Return the metrics in a row that Spark observed; None when it is not of such a join."""


def _observed_in(progress: object) -> tuple[int, dict[str, Any]]:
    """Return the number of the micro-batch, and what was observed in it by name."""
    fields: Any = progress
    if isinstance(fields, Mapping):
        return fields["batchId"], dict(fields["observedMetrics"] or {})
    return fields.batchId, dict(fields.observedMetrics or {})


def row_by_name(row: Any) -> dict[str, Any]:
    """Return an observed row by column: a Row, a dict, or on Spark Connect a Row of values and their schema."""
    fields: dict[str, Any] = row.asDict() if hasattr(row, "asDict") else dict(row)
    if fields.keys() == {"values", "schema"}:
        return dict(zip((column["name"] for column in fields["schema"]["fields"]), fields["values"], strict=True))
    return fields
