"""A figure's result beside the paper's claims of it, with a verdict for each clock."""

from dataclasses import dataclass

from semistream.bench.figures.figure_result import FigureResult
from semistream.bench.figures.point import MACHINE
from semistream.bench.reproduction.claim import Claim
from semistream.bench.reproduction.claims_file import claims_of
from semistream.bench.reproduction.curves import Curves
from semistream.bench.reproduction.verdict import Finding, Verdict, weakest
from semistream.cost.disk_profile import HDD

__all__ = ["DISK_CLOCK", "MACHINE_CLOCK", "JudgedClaim", "JudgedFigure", "judge"]

DISK_CLOCK = HDD.name
MACHINE_CLOCK = MACHINE
_NO_CLOCK = "value"


@dataclass(frozen=True)
class JudgedClaim:
    """A claim and what was found of it on the disk's clock and on this machine's."""

    claim: Claim
    on_disk: Finding
    on_machine: Finding


@dataclass(frozen=True)
class JudgedFigure:
    """A figure and its claims.

    Attributes
    ----------
    has_clocks
        Whether it was measured on both clocks; otherwise both findings are the same.
    """

    result: FigureResult
    claims: tuple[JudgedClaim, ...]
    has_clocks: bool

    @property
    def on_disk(self) -> Verdict:
        """On the disk that the papers' machines had: the verdict of the figure."""
        return weakest([judged.on_disk.verdict for judged in self.claims])

    @property
    def on_machine(self) -> Verdict:
        return weakest([judged.on_machine.verdict for judged in self.claims])


def judge(result: FigureResult) -> JudgedFigure:
    """Return what a result says of its figure's claims.

    Values that depend on no clock are judged once, and what was measured on one clock alone by that one.
    """
    points = result.points
    plain = Curves(points, _NO_CLOCK)
    on_disk, on_machine = Curves(points, DISK_CLOCK), Curves(points, MACHINE_CLOCK)
    claims = tuple(
        JudgedClaim(claim, claim.judge(on_disk or on_machine or plain), claim.judge(on_machine or on_disk or plain))
        for claim in claims_of(result.figure)
    )
    return JudgedFigure(result, claims, bool(on_disk and on_machine))
