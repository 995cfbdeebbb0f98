"""The kinds ``sales by product`` and ``arrivals over time``: S1's stream generator (Figs. 10 and 11)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from semistream.bench.framework.measurement import VALUE, Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.kernels.arrays import Int64s
from semistream.workloads import Bursts, stream

__all__ = ["ArrivalsOverTime", "SalesByProduct", "arrivals_measurements", "sales_measurements"]

_SHOWN_RANKS = 40


@dataclass(frozen=True, kw_only=True)
class SalesByProduct:
    """The share of tuples with the most frequent keys, counted in a stream."""

    series: str
    keys: int
    tuples: int
    zipf_exponent: float
    shares: tuple[float, ...]  # of the keys to show

    @property
    def name(self) -> str:
        return self.series

    @property
    def weight(self) -> float:
        return 0.2 + 3e-7 * self.tuples

    def run(self, context: Context) -> list[Point]:
        context.report(f"counting {self.tuples:,} tuples, skew {self.zipf_exponent:g}")
        counts = np.zeros(self.keys, dtype=np.int64)
        batches = stream(
            self.tuples, key_domain=self.keys, zipf_exponent=self.zipf_exponent, seed=context.seed, batch_rows=1 << 20
        )
        for batch in batches:
            counts += np.bincount(batch.column("key").to_numpy(), minlength=self.keys)
        counts = np.sort(counts)[::-1]
        before = np.concatenate([[0], np.cumsum(counts)])
        points = []
        for share in self.shares:
            keys = round(share * self.keys)
            value = 100 * float(before[keys]) / self.tuples
            points.append(Point(self.series, 100 * share, {VALUE: value}, {"keys": keys}, "by share of keys"))
        ranks = np.unique(np.geomspace(1, self.keys, _SHOWN_RANKS).astype(np.int64))
        for rank in ranks[counts[ranks - 1] > 0].tolist():
            tuples = int(counts[rank - 1])
            # Logarithms give a straight line.
            x, value = math.log10(rank), math.log10(tuples)
            points.append(Point(self.series, x, {VALUE: value}, {"rank": rank, "tuples": tuples}, "by rank"))
        return points


@dataclass(frozen=True, kw_only=True)
class ArrivalsOverTime:
    """Arrivals in each interval of a period, and of its busiest part: bursts inside of bursts."""

    series: str
    rate: float
    burstiness: float
    period_s: float
    intervals: int  # to show of the period, and of its part
    part: float  # size of the busiest part, as a share of the period

    @property
    def name(self) -> str:
        return self.series

    @property
    def weight(self) -> float:
        return 0.1

    def run(self, context: Context) -> list[Point]:
        bursts = Bursts(self.rate, burstiness=self.burstiness, period_s=self.period_s, seed=context.seed)
        ticks = round(self.period_s / bursts.tick_s)
        part_ticks = max(1, round(self.part * ticks))
        arrived = bursts.arrived_before(np.arange(0, ticks + 1, part_ticks, dtype=np.int64))
        busiest = int(np.argmax(np.diff(arrived))) * part_ticks
        return [
            *self._shown(bursts, 0, ticks, "whole period"),
            *self._shown(bursts, busiest, part_ticks, "busiest part"),
        ]

    def _shown(self, bursts: Bursts, first: int, ticks: int, group: str) -> list[Point]:
        per_interval = max(1, ticks // self.intervals)
        bounds = np.arange(first, first + ticks + 1, per_interval, dtype=np.int64)
        counts = np.diff(bursts.arrived_before(bounds))
        interval_s = per_interval * bursts.tick_s
        details = {
            "interval_s": interval_s,
            "busiest_to_mean": float(counts.max() / counts.mean()),
            # The share of the time in which four fifths of the tuples arrive; 0.8 for even arrivals.
            "time_share_of_80_percent": _least_share(counts, 0.8),
        }
        points = [
            Point(self.series, float(bound * bursts.tick_s), {VALUE: float(count / interval_s)}, {}, group)
            for bound, count in zip(bounds[:-1].tolist(), counts.tolist(), strict=True)
        ]
        points[0].details.update(details)
        return points


def _least_share(counts: Int64s, of_tuples: float) -> float:
    """Return the least share of the intervals that has this share of the tuples."""
    reached = np.cumsum(np.sort(counts)[::-1])
    return float(np.searchsorted(reached, of_tuples * reached[-1]) + 1) / counts.size


def sales_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series; parameters are the fields of `SalesByProduct`, ``x`` the shares."""
    shared = {name: parameters[name] for name in ("keys", "tuples") if name in parameters}
    return [
        SalesByProduct(series=series, shares=tuple(parameters["x"]), **{**shared, **settings})
        for series, settings in spec.series.items()
    ]


def arrivals_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series; parameters are the fields of `ArrivalsOverTime`."""
    return [ArrivalsOverTime(series=series, **{**parameters, **settings}) for series, settings in spec.series.items()]
