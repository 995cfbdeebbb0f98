"""What was measured of one plan at one size of table and micro-batch."""

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["PlanResult"]


@dataclass(frozen=True)
class PlanResult:
    """Times of the micro-batches of a query.

    Attributes
    ----------
    batch_s
        What each measured micro-batch took from trigger to commit, as Spark tells it.
    is_cold
        Whether the table's files were taken out of the page cache before every batch.
    failure
        Why the plan did not run, in a line; there are no times then.
    observed
        What the join counted in the measured batches, for ours.
    """

    rows: int
    batch_rows: int
    plan: str
    is_cold: bool = False
    batch_s: list[float] = field(default_factory=list)
    failure: str | None = None
    observed: dict[str, Any] = field(default_factory=dict)
    load_average: float = 0.0

    @property
    def median_s(self) -> float:
        """The median time of a micro-batch."""
        return statistics.median(self.batch_s)

    def as_dict(self) -> dict[str, Any]:
        """Return the result as it stands in the result file."""
        return asdict(self)
