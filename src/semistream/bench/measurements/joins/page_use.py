"""Figures of the kind ``page use``: how often a join reads the pages of R, by their position in it (S1 Fig. 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from semistream.bench.framework.measurement import Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.joins.open_cell import cell_without, open_cell
from semistream.bench.measurements.joins.page_reads import PageReads
from semistream.bench.measurements.joins.rate import RateCell
from semistream.bench.measurements.joins.saturated import Saturated

__all__ = ["PageUse", "page_use_measurements"]

_OWN = ("sections", "warm_up_scans", "measured_scans")


@dataclass(frozen=True, kw_only=True)
class PageUse:
    """One algorithm on R; MESHJOIN, which reads all pages alike, is the level to compare with.

    Attributes
    ----------
    sections
        Into how many parts of equal size R is divided along its pages; each gives a point.
    warm_up_scans, measured_scans
        How often R's bytes are read before reads are counted, and while they are.
    """

    series: str
    cell: RateCell
    sections: int
    warm_up_scans: float
    measured_scans: float

    @property
    def name(self) -> str:
        return self.series

    @property
    def weight(self) -> float:
        rows: int = self.cell.workload.arguments["rows"]
        return 1.0 + 1e-6 * rows * (self.warm_up_scans + self.measured_scans)

    def run(self, context: Context) -> list[Point]:
        opened = open_cell(self.cell, context)
        reads = PageReads(opened.table)
        num_bytes = opened.table.num_bytes
        with opened._replace(table=reads.table).operator() as op:
            saturated = Saturated(op, opened.stream())
            saturated.run(bytes_read=int(self.warm_up_scans * num_bytes))
            before = reads.counts.copy()
            work = saturated.run(bytes_read=int(self.measured_scans * num_bytes))
            counts = reads.counts - before
        bounds = np.linspace(0, counts.size, min(self.sections, counts.size) + 1).astype(np.int64)
        per_page = np.add.reduceat(counts, bounds[:-1]) / np.diff(bounds)
        return [
            Point(
                series=self.series,
                x=float(low + high) / 2,
                y={"value": 1e6 * reads_of_page / max(1, work.tuples)},
                details={"reads_per_page": reads_of_page, "tuples": work.tuples, "pages": high - low},
            )
            for low, high, reads_of_page in zip(
                bounds[:-1].tolist(), bounds[1:].tolist(), per_page.tolist(), strict=True
            )
        ]


def page_use_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series; parameters beside those of a cell are the fields of `PageUse`."""
    own = {name: parameters[name] for name in _OWN}
    return [
        PageUse(series=series, cell=cell_without({**parameters, **settings}, _OWN), **own)
        for series, settings in spec.series.items()
    ]
