"""The kinds of figures: which measurements a spec asks for."""

from collections.abc import Callable, Mapping
from typing import Any

from semistream.bench.figures.cost_validation import cost_validation_measurements
from semistream.bench.figures.growing_table import growing_table_measurements
from semistream.bench.figures.measurement import Measurement
from semistream.bench.figures.memory_for_rate import memory_for_rate_measurements
from semistream.bench.figures.overload_rates import shedding_measurements
from semistream.bench.figures.page_use import page_use_measurements
from semistream.bench.figures.rate import rate_measurements
from semistream.bench.figures.spec import FigureSpec
from semistream.bench.figures.stream_plots import arrivals_measurements, sales_measurements
from semistream.bench.figures.times import processing_time_measurements, waiting_time_measurements
from semistream.bench.figures.two_streams import two_streams_measurements
from semistream.core.errors import InvalidArgument

__all__ = ["KINDS", "Kind", "measurements_of"]

Kind = Callable[[FigureSpec, Mapping[str, Any]], list[Measurement]]
"""Returns the measurements of a figure, from its spec and the parameters of a scale. Nothing is measured or read."""

KINDS: dict[str, Kind] = {
    "rate": rate_measurements,
    "page use": page_use_measurements,
    "processing time": processing_time_measurements,
    "waiting time": waiting_time_measurements,
    "memory for rate": memory_for_rate_measurements,
    "cost validation": cost_validation_measurements,
    "shedding": shedding_measurements,
    "growing table": growing_table_measurements,
    "sales by product": sales_measurements,
    "arrivals over time": arrivals_measurements,
    "two streams": two_streams_measurements,
}


def measurements_of(spec: FigureSpec, scale: str) -> list[Measurement]:
    """Return the measurements of a figure at ``scale``.

    Examples
    --------
    >>> from semistream.bench.figures.spec import load_figure
    >>> len(measurements_of(load_figure("S0-5a"), "ci"))
    4
    """
    if spec.kind not in KINDS:
        raise InvalidArgument(f"figure {spec.id} has the unknown kind {spec.kind!r}: use one of {', '.join(KINDS)}")
    return KINDS[spec.kind](spec, spec.parameters(scale))
