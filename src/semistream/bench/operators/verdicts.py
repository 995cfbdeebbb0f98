"""The ratios that are held against targets, worked out from measured cells."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from semistream.bench.operators.cells import TARGET_MEMORY_SHARE, TARGET_SKEW, Cell, CellResult, Layout
from semistream.bench.operators.spec import OperatorsSpec
from semistream.bench.result_file import Entry
from semistream.cost.disk_profile import HDD

__all__ = ["entries_of"]

_RATES = (
    ("cmeshjoin", "meshjoin", 3.0),
    ("chybridjoin", "hybridjoin", 2.0),
    ("cinlj", "inlj", 2.0),
    ("ssbj", "meshjoin", 3.0),
)
_CACHED = (("cmeshjoin", "meshjoin"), ("chybridjoin", "hybridjoin"), ("cinlj", "inlj"))
_LEAST_AT_NO_SKEW = 0.85
_MOST_MEMORY_PART = 0.5
_MOST_CPU = 3.0

_RATE_RATIO_OF = f"service rate: tuples per second of I/O on the {HDD.name} / the same of its base, at equal memory"
_NO_SKEW_RATIO_OF = f"{_RATE_RATIO_OF}, the lowest over all budgets"
_MEMORY_RATIO_OF = "memory: the least budget with which SSBJ has MESHJOIN's rate on the disk / MESHJOIN's budget"
_CPU_RATIO_OF = "CPU: CPU time per stream tuple / MESHJOIN's at the same point, the highest over all skews and budgets"


def entries_of(spec: OperatorsSpec, results: Sequence[CellResult]) -> list[Entry]:
    """Return the ratios for which all cells are there; only those at the sizes of the targets are judged."""
    found = {result.cell: result for result in results if result.skipped is None}
    entries: list[Entry] = []
    for rows in dict.fromkeys(cell.rows for cell in found):
        for layout in ("heap", "clustered"):
            of = _Cells(found, rows, layout)
            judged = spec.is_target_size(rows)
            entries += _rates(of, judged)
            entries += _no_skew(of, judged)
            entries += _memory(of, judged)
            entries += _cpu(of, judged)
    return entries


class _Cells:
    """The cells of one table."""

    def __init__(self, found: dict[Cell, CellResult], rows: int, layout: Literal["heap", "clustered"]) -> None:
        self._found = found
        self._rows = rows
        self._layout: Layout = layout
        self.points = list(dict.fromkeys((cell.skew, cell.memory_share) for cell in found if self._is_of_table(cell)))
        self.algorithms = list(dict.fromkeys(cell.algorithm for cell in found if self._is_of_table(cell)))
        self.name = f"{layout}, {rows:,} rows"

    def _is_of_table(self, cell: Cell) -> bool:
        return (cell.rows, cell.layout) == (self._rows, self._layout)

    def at(self, algorithm: str, skew: float, memory_share: float) -> CellResult | None:
        return self._found.get(Cell(self._rows, skew, memory_share, algorithm, self._layout))

    def meshjoin_at(self, skew: float, memory_share: float) -> CellResult | None:
        """Return MESHJOIN's result on a heap: its scan is the same whatever the layout."""
        return self._found.get(Cell(self._rows, skew, memory_share, "meshjoin", "heap"))

    def pairs(self, algorithm: str, base: str) -> Iterator[tuple[float, float, CellResult, CellResult]]:
        """Yield (skew, memory share, result, result of the base) wherever both were measured."""
        for skew, memory_share in self.points:
            ours, theirs = self.at(algorithm, skew, memory_share), self.at(base, skew, memory_share)
            if ours is not None and theirs is not None:
                yield skew, memory_share, ours, theirs


def _rates(of: _Cells, judged: bool) -> Iterator[Entry]:
    for algorithm, base, target in _RATES:
        ours = of.at(algorithm, TARGET_SKEW, TARGET_MEMORY_SHARE)
        theirs = of.at(base, TARGET_SKEW, TARGET_MEMORY_SHARE)
        if ours is not None and theirs is not None:
            name = f"{algorithm} / {base}, skew {TARGET_SKEW:g}, memory {TARGET_MEMORY_SHARE:.0%}, {of.name}"
            details = _compared(ours, theirs)
            yield Entry(name, _disk_ratio(ours, theirs), target, "at least", details, _RATE_RATIO_OF, judged)


def _no_skew(of: _Cells, judged: bool) -> Iterator[Entry]:
    for algorithm, base in _CACHED:
        at = {share: (ours, theirs) for skew, share, ours, theirs in of.pairs(algorithm, base) if skew == 0}
        if at:
            ratios = {f"{share:g}": _disk_ratio(*pair) for share, pair in at.items()}
            details = {"by_memory_share": ratios, "compared": [_compared(*pair) for pair in at.values()]}
            name = f"{algorithm} / {base}, skew 0, {of.name}"
            yield Entry(name, min(ratios.values()), _LEAST_AT_NO_SKEW, "at least", details, _NO_SKEW_RATIO_OF, judged)


def _memory(of: _Cells, judged: bool) -> Iterator[Entry]:
    theirs = of.at("meshjoin", TARGET_SKEW, TARGET_MEMORY_SHARE)
    tried = {
        share: ours
        for skew, share in of.points
        if skew == TARGET_SKEW and share <= TARGET_MEMORY_SHARE and (ours := of.at("ssbj", skew, share)) is not None
    }
    if theirs is None or TARGET_MEMORY_SHARE not in tried or len(tried) < 2:
        return
    enough = [share for share, ours in tried.items() if _disk_ratio(ours, theirs) >= 1]
    details = {
        "reached": bool(enough),  # otherwise not even the whole of MESHJOIN's budget was enough
        "meshjoin_tuples_per_s": _disk_rate(theirs),
        "ssbj_tuples_per_s_by_memory_share": {f"{share:.4g}": _disk_rate(ours) for share, ours in tried.items()},
    }
    value = min(enough, default=TARGET_MEMORY_SHARE) / TARGET_MEMORY_SHARE
    name = f"ssbj's memory at meshjoin's rate, skew {TARGET_SKEW:g}, {of.name}"
    yield Entry(name, value, _MOST_MEMORY_PART, "at most", details, _MEMORY_RATIO_OF, judged)


def _cpu(of: _Cells, judged: bool) -> Iterator[Entry]:
    for algorithm in of.algorithms:
        if algorithm == "meshjoin":
            continue
        ratios = {
            f"skew {skew:g}, memory {share:.3g}": ours.cpu_us_per_tuple / theirs.cpu_us_per_tuple
            for skew, share in of.points
            if (ours := of.at(algorithm, skew, share)) and (theirs := of.meshjoin_at(skew, share))
        }
        if ratios:
            name = f"CPU of {algorithm} / meshjoin, {of.name}"
            yield Entry(name, max(ratios.values()), _MOST_CPU, "at most", {"by_cell": ratios}, _CPU_RATIO_OF, judged)


def _disk_rate(result: CellResult) -> float:
    return result.disk(HDD.name).tuples_per_s


def _disk_ratio(ours: CellResult, theirs: CellResult) -> float:
    return _disk_rate(ours) / _disk_rate(theirs)


def _compared(ours: CellResult, theirs: CellResult) -> dict[str, Any]:
    """Return the same ratio on every clock, and whether both sides were warm."""
    clocks: dict[str, Callable[[CellResult], float]] = {
        "disk_io": _disk_rate,
        "disk_io_and_cpu": lambda result: result.disk(HDD.name).tuples_per_s_with_cpu,
        "this_machine": lambda result: result.tuples_per_s,
    }
    return {
        **{f"ratio_{name}": rate(ours) / rate(theirs) for name, rate in clocks.items()},
        **{f"tuples_per_s_{name}": [rate(ours), rate(theirs)] for name, rate in clocks.items()},
        "memory_share": ours.cell.memory_share,
        "cache_share": ours.cache_share,
        "were_steady": [result.warm_up is not None and result.warm_up.is_steady for result in (ours, theirs)],
    }
