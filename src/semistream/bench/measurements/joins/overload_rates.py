"""The kind ``shedding``: tuples answered per second while more arrive than a join can answer (S2, Figs. 7 and 8).

Tuples arrive at a multiple of the join's rate without shedding. Shed tuples are joined later and do not count. On the
clock of the 7200 rpm disk, tuples shed to disk are written and read again in blocks, each after a seek; the network
costs that disk nothing. The predictions of the shedding model are shown too.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from semistream.bench.framework.measurement import MACHINE, Context, Measurement, Point
from semistream.bench.framework.spec import Spec
from semistream.bench.measurements.cost.join_case import join_case
from semistream.bench.measurements.joins.cell import OpenCell, RateCell, groups_of, open_cell, rate_cell
from semistream.bench.measurements.joins.shedding_model import MODELLED, predict_shedding
from semistream.bench.measurements.joins.times import CLOCKS, replay_for
from semistream.core.errors import InvalidArgument
from semistream.cost.clock import HDD
from semistream.operators.shedding.load_shedding import SheddingConfig
from semistream.runtime.local import StepCost

__all__ = ["OutsideStore", "OverloadRates", "Shedder", "shedding_measurements"]

_BLOCK_BYTES = 1 << 20  # of shed tuples, written or read at once
_COUNTED = ("cache_share", "tuples_shed", "tuples_reloaded")
_OF_SHEDDER = ("strategy", "to", "lookup_position", "spool_bytes")
_OWN = (*_OF_SHEDDER, "unshed", "overload", "settling_scans", "scans")


class OutsideStore:
    """Stands in for the network: keeps shed tuples outside of the join's memory, and returns them in order."""

    def __init__(self) -> None:
        self._batches: deque[pa.RecordBatch] = deque()

    def put(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def take(self, max_rows: int) -> pa.RecordBatch:
        batch = self._batches.popleft()
        if batch.num_rows > max_rows:
            self._batches.appendleft(batch.slice(max_rows))
            batch = batch.slice(0, max_rows)
        return batch


@dataclass(frozen=True, kw_only=True)
class Shedder:
    """One way to shed load, as in `SheddingConfig`."""

    strategy: str
    to: str = "disk"  # or "network"
    lookup_position: float = 0.15
    spool_bytes: str = "1GB"  # the index of a larger spool takes more of the budget

    def __post_init__(self) -> None:
        if self.to not in ("disk", "network"):
            raise InvalidArgument(f"to={self.to!r} is no place for shed tuples: use 'disk' or 'network'")

    def config(self, context: Context) -> SheddingConfig:
        outside = OutsideStore()
        place: dict[str, Any] = {"to": (outside.put, outside.take)}
        if self.to == "disk":
            place = {"to": "disk", "directory": context.data_dir, "spool_bytes": self.spool_bytes}
        return SheddingConfig(
            strategy=self.strategy,  # type: ignore[arg-type]
            lookup_position=self.lookup_position,
            seed=context.seed,
            **place,
        )

    def clocks(self, opened: OpenCell) -> dict[str, Callable[[StepCost], float]]:
        tuple_bytes = sum(column.bit_width for column in opened.workload.stream_schema.types) / 8

        def disk_step_s(step: StepCost) -> float:
            moved = step.after.since(step.before)
            moved_bytes = (moved.tuples_shed + moved.tuples_reloaded) * tuple_bytes
            return CLOCKS[HDD.name](step) + HDD.io_s(moved_bytes / _BLOCK_BYTES, moved_bytes)

        return {**CLOCKS, HDD.name: disk_step_s} if self.to == "disk" else CLOCKS


class Place(NamedTuple):
    """A place on the x axis: arrivals, as a multiple of the service rate without shedding, and the shedder, if any."""

    x: float
    overload: float
    shedder: Shedder | None


class _Unshed(NamedTuple):
    """The join without shedding, by the name of the clock: its rate, and the time of a scan's worth of reads."""

    tuples_per_s: dict[str, float]
    scan_s: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class OverloadRates:
    """One way to shed load, while too many tuples arrive, on every clock.

    Times are in scans of R by the join without shedding.
    """

    series: str
    group: str
    cell: RateCell
    unshed: RateCell  # the join whose service rate without shedding is the unit of the arrivals
    places: tuple[Place, ...]  # those without a shedder show the arrivals
    settling_scans: float  # in which a cache fills
    scans: float  # of the measurement

    @property
    def name(self) -> str:
        return ", ".join(part for part in (self.series, self.group) if part)

    @property
    def weight(self) -> float:
        rows: int = self.cell.workload.arguments["rows"]
        shed = [place.overload for place in self.places if place.shedder is not None]
        return self.unshed.weight + sum(shed) * (self.settling_scans + self.scans) * 4e-6 * rows

    def run(self, context: Context) -> list[Point]:
        unshed = _unshed(open_cell(self.unshed, context))
        opened = open_cell(self.cell, context)
        return [point for place in self.places for point in self._points(place, opened, unshed, context)]

    def _points(self, place: Place, opened: OpenCell, unshed: _Unshed, context: Context) -> Iterator[Point]:
        context.report(f"{self.series}: arrivals at {place.overload:g} times the service rate")
        arrivals = {clock: place.overload * rate for clock, rate in unshed.tuples_per_s.items()}
        shedder = place.shedder
        if shedder is None:
            yield Point(self.series, place.x, arrivals, group=self.group)
            return
        found = {
            clock: replay_for(
                opened.operator(shedding=shedder.config(context)),
                opened.stream(),
                arrivals[clock],
                settling_s=self.settling_scans * unshed.scan_s[clock],
                measured_s=self.scans * unshed.scan_s[clock],
                step_cost_s=step_s,
            )
            for clock, step_s in shedder.clocks(opened).items()
        }
        rates = {clock: part.tuples_per_s for clock, part in found.items()}
        details = {
            "overload": place.overload,
            "tuples_per_s_without_shedding": unshed.tuples_per_s,
            **{name: {clock: getattr(part.counted, name) for clock, part in found.items()} for name in _COUNTED},
            "measured_s": {clock: part.seconds for clock, part in found.items()},
        }
        yield Point(self.series, place.x, rates, details, self.group)
        if self.cell.algorithm in MODELLED:
            prediction = predict_shedding(
                self.cell.algorithm,
                join_case(opened),
                opened.budget_bytes,
                HDD,
                arrivals_per_s=arrivals[HDD.name],
                shedding=shedder.config(context),
            )
            details = {"overload": place.overload, "shed_per_s": prediction.shed_per_s}
            yield Point(f"{self.series} predicted", place.x, {HDD.name: prediction.tuples_per_s}, details, self.group)


def _unshed(opened: OpenCell) -> _Unshed:
    steady = opened.measure()
    scans = steady.work.counted.bytes_read / opened.table.num_bytes
    seconds = {HDD.name: steady.disks[HDD.name].io_s, MACHINE: steady.work.undisturbed_s}
    rates = {clock: steady.rates[clock] for clock in seconds}
    return _Unshed(rates, {clock: each / scans for clock, each in seconds.items()})


def shedding_measurements(spec: Spec, parameters: Mapping[str, Any]) -> list[Measurement]:
    """Return a measurement for every series.

    Parameters are those of a cell; those of `Shedder`; ``overload``; ``settling_scans`` and ``scans`` of
    `OverloadRates`; and ``unshed``, other parameters of the join without shedding. A series without a strategy shows
    the arrivals. Lists span groups.
    """
    measurements: list[Measurement] = []
    for group, there in groups_of(parameters):
        for series, settings in spec.series.items():
            here = {**there, **settings}
            unshed = rate_cell({**here, **parameters.get("unshed", {})}, _OWN)
            measurements.append(
                OverloadRates(
                    series=series,
                    group=group,
                    cell=rate_cell(here, _OWN) if "strategy" in here else unshed,
                    unshed=unshed,
                    places=tuple(_place({**here, spec.x.name: x}, x * spec.x.factor) for x in parameters["x"]),
                    settling_scans=here["settling_scans"],
                    scans=here["scans"],
                )
            )
    return measurements


def _place(parameters: Mapping[str, Any], x: float) -> Place:
    own = {name: parameters[name] for name in _OF_SHEDDER if name in parameters}
    return Place(x, parameters["overload"], Shedder(**own) if "strategy" in own else None)
