"""Clocks: how long the counted work of a loop takes, on a disk of a profile or on a calibrated machine."""

from typing import Protocol

from semistream.cost.loop import Loop

__all__ = ["Clock"]


class Clock(Protocol):
    """Prices a loop.

    `DiskProfile` knows seeks and bytes alone, the same for every algorithm. `CostFactors`, from calibration, has the
    factors of each algorithm on this machine.
    """

    @property
    def name(self) -> str:
        """What rates on this clock are called."""
        ...

    def loop_s(self, algorithm: str, loop: Loop) -> float:
        """Return the papers' c_loop: the seconds of one iteration."""
        ...
