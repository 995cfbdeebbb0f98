"""What Spark has observed, out of a query's progress, whatever form it has there."""

from collections.abc import Mapping
from typing import Any

__all__ = ["observed_in_progress", "row_by_name"]


def observed_in_progress(progress: object) -> tuple[int, dict[str, Any]]:
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
