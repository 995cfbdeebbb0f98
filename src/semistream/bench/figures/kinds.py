"""The kinds of figures: which measurements a spec asks for."""

from collections.abc import Callable, Mapping
from typing import Any

from semistream.bench.figures.measurement import Measurement
from semistream.bench.figures.rate import rate_measurements
from semistream.bench.figures.spec import FigureSpec
from semistream.core.errors import InvalidArgument

__all__ = ["KINDS", "Kind", "measurements_of"]

Kind = Callable[[FigureSpec, Mapping[str, Any]], list[Measurement]]
"""Returns the measurements of a figure, from its spec and the parameters of a scale. Nothing is measured or read."""

KINDS: dict[str, Kind] = {
    "rate": rate_measurements,
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
