"""The result of a figure beside the paper's claims, with a verdict for each clock."""

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from semistream.bench.framework.curves import Curves
from semistream.bench.framework.measurement import MACHINE, VALUE
from semistream.bench.framework.result_file import Result
from semistream.bench.framework.spec import read_toml
from semistream.bench.reproduction.claim import Claim, Finding, Verdict, weakest
from semistream.cost.clock import HDD

__all__ = ["DISK_CLOCK", "MACHINE_CLOCK", "JudgedClaim", "JudgedFigure", "claimed_figures", "claims_of", "judge"]

DISK_CLOCK = HDD.name
MACHINE_CLOCK = MACHINE


def claims_of(figure: str) -> list[Claim]:
    """Return the paper's claims of a figure.

    Examples
    --------
    >>> [claim.paper for claim in claims_of("S0-5a")]
    [7.0, 8.0]
    """
    return [Claim(**content) for content in _all_claims().get(figure, [])]


def claimed_figures() -> list[str]:
    """Return the figures with claims."""
    return list(_all_claims())


@cache
def _all_claims() -> dict[str, list[dict[str, Any]]]:
    claims: dict[str, list[dict[str, Any]]] = {}
    for file in sorted((files("semistream.bench") / "claims").iterdir(), key=lambda file: file.name):
        claims.update(read_toml(file.read_text(encoding="utf-8"), file.name))
    return claims


@dataclass(frozen=True)
class JudgedClaim:
    """A claim, and the findings on the disk's clock and on this machine's."""

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

    result: Result
    claims: tuple[JudgedClaim, ...]
    has_clocks: bool

    @property
    def on_disk(self) -> Verdict:
        """On the disk that the papers' machines had: the verdict of the figure."""
        return weakest([judged.on_disk.verdict for judged in self.claims])

    @property
    def on_machine(self) -> Verdict:
        return weakest([judged.on_machine.verdict for judged in self.claims])


def judge(result: Result) -> JudgedFigure:
    """Judge the claims of a figure by its result.

    Values that depend on no clock are judged once, and values on one clock by that clock.
    """
    points = result.points
    plain = Curves(points, VALUE)
    on_disk, on_machine = Curves(points, DISK_CLOCK), Curves(points, MACHINE_CLOCK)
    claims = tuple(
        JudgedClaim(claim, claim.judge(on_disk or on_machine or plain), claim.judge(on_machine or on_disk or plain))
        for claim in claims_of(result.benchmark)
    )
    return JudgedFigure(result, claims, bool(on_disk and on_machine))
