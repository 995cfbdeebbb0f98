"""Verdicts: how well a measured figure bears out what a paper says of it."""

from enum import Enum
from typing import NamedTuple

__all__ = ["Finding", "Verdict", "weakest"]


class Verdict(Enum):
    """From best to worst; the text is what the report says."""

    REPRODUCED = "reproduced"
    IN_DIRECTION = "reproduced in direction"
    NOT_REPRODUCED = "not reproduced"
    NOT_MEASURED = "not measured"


class Finding(NamedTuple):
    """What was found of one claim on one clock, in few words, and the verdict."""

    ours: str
    verdict: Verdict


def weakest(verdicts: list[Verdict]) -> Verdict:
    """Return the worst of several verdicts: a figure is as good as its weakest claim.

    Examples
    --------
    >>> weakest([Verdict.REPRODUCED, Verdict.IN_DIRECTION]).value
    'reproduced in direction'
    """
    order = list(Verdict)
    return max(verdicts, key=order.index, default=Verdict.NOT_MEASURED)
