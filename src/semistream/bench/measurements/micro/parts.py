"""The kind ``micro``: page scans, multi-map kernels, service rate of MESHJOIN, resident memory."""

from collections.abc import Mapping
from typing import Any

from semistream.bench.framework.measurement import Measurement, check_least
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.micro.multimap import MultimapTimes
from semistream.bench.measurements.micro.page_scan import PageScan
from semistream.bench.measurements.micro.resident_memory import ResidentMemory
from semistream.bench.measurements.micro.service_rate import ServiceRate
from semistream.core.errors import InvalidArgument

__all__ = ["micro_measurements"]


def micro_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return the page scans, the multi-map, a service rate for every budget, and the resident memory.

    The ticks of the x axis are the operations of the multi-map and the states of the page cache. Budgets are shares of
    R and lie between the first two ticks.
    """
    check_least(parameters, rows=1000, repeats=1, page_bytes=1024, multimap_entries=1, plain_entries=1)
    shares = [*parameters["budget_shares"], parameters["resident_share"]]
    for share in shares:
        if not 0 < share < 1:
            raise InvalidArgument(f"a budget of {share:g} of R is not possible: use a share above 0 and below 1")
    repeats = parameters["repeats"]
    table = {"rows": parameters["rows"], "page_bytes": parameters["page_bytes"]}
    return [
        *(PageScan(cache=cache, x=spec.x.ticks.index(cache), repeats=repeats, **table) for cache in ("cold", "warm")),
        MultimapTimes(
            entries=parameters["multimap_entries"], plain_entries=parameters["plain_entries"], repeats=repeats
        ),
        *(ServiceRate(budget_share=share, repeats=repeats, **table) for share in parameters["budget_shares"]),
        ResidentMemory(budget_share=parameters["resident_share"], **table),
    ]
