"""The kinds of measurements by name. A kind is imported when it is used: some need Spark."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from semistream.bench.framework.measurement import Measurement
from semistream.bench.framework.spec import Spec
from semistream.core.errors import InvalidArgument

__all__ = ["KINDS", "Kind", "measurements_of"]

Kind = Callable[[Spec, Mapping[str, Any]], list[Measurement]]
"""Returns the measurements of a spec, from the parameters of a scale. Nothing is measured or read."""

KINDS = {
    "rate": "joins.rate:rate_measurements",
    "page use": "joins.page_use:page_use_measurements",
    "processing time": "joins.times:processing_time_measurements",
    "waiting time": "joins.times:waiting_time_measurements",
    "memory for rate": "cost.memory_for_rate:memory_for_rate_measurements",
    "cost validation": "cost.cost_validation:cost_validation_measurements",
    "shedding": "joins.overload_rates:shedding_measurements",
    "growing table": "joins.growing_table:growing_table_measurements",
    "sales by product": "stream_plots:sales_measurements",
    "arrivals over time": "stream_plots:arrivals_measurements",
    "two streams": "two_streams.figures:two_streams_measurements",
    "tuning": "cost.tuning:tuning_measurements",
    "cache": "cache:cache_measurements",
    "micro": "micro.parts:micro_measurements",
    "spark": "spark.plan_times:spark_measurements",
    "punctuated": "two_streams.experiments:punctuated_measurements",
    "punctuated on Spark": "two_streams.on_spark:punctuated_spark_measurements",
}
"""Module and function of each kind, below `semistream.bench.measurements`."""


def measurements_of(spec: Spec, scale: str) -> list[Measurement]:
    """Return the measurements of a spec at ``scale``.

    Examples
    --------
    >>> from semistream.bench.framework.spec import load_spec
    >>> len(measurements_of(load_spec("S0-5a"), "quick"))
    4
    """
    if spec.kind not in KINDS:
        raise InvalidArgument(f"{spec.id} has the unknown kind {spec.kind!r}: use one of {', '.join(KINDS)}")
    module, _, function = KINDS[spec.kind].partition(":")
    kind: Kind = getattr(import_module(f"semistream.bench.measurements.{module}"), function)
    return kind(spec, spec.parameters(scale))
