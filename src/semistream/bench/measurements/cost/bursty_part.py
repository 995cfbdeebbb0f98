"""The part of a bursty stream that is replayed: the one with the busiest tick of its period."""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from semistream.workloads.draws.bursts import Bursts

__all__ = ["TICKS_OF_PERIOD", "BurstyPart"]

TICKS_OF_PERIOD = 1024


@dataclass(frozen=True)
class BurstyPart:
    """Ticks of a bursty stream, as arrivals of their own that begin at 0."""

    bursts: Bursts
    first_tick: int
    ticks: int
    scan_s: float  # over which the peak is taken: as long as a tuple stays in the window

    @staticmethod
    def around_peak(
        *, peak_tuples: float, scan_s: float, tick_scans: float, ticks: int, burstiness: float, seed: int
    ) -> "BurstyPart":
        """Return the part with the busiest tick, at the rate at which ``peak_tuples`` arrive in the busiest scan."""
        period_s = tick_scans * scan_s * TICKS_OF_PERIOD
        trial = Bursts(1e6 / period_s * TICKS_OF_PERIOD, burstiness=burstiness, period_s=period_s, seed=seed)
        busiest = int(np.argmax(np.diff(trial.arrived_before(np.arange(TICKS_OF_PERIOD + 1)))))
        part = BurstyPart(trial, busiest // ticks * ticks, ticks, scan_s)
        rate = trial.rate * peak_tuples / part.peak_tuples()
        bursts = Bursts(rate, burstiness=burstiness, period_s=period_s, seed=seed)
        return BurstyPart(bursts, part.first_tick, ticks, scan_s)

    @property
    def length_s(self) -> float:
        return self.ticks * self.bursts.tick_s

    @property
    def first_tuple(self) -> int:
        return self._before(self.first_tick)

    @property
    def num_tuples(self) -> int:
        return self._before(self.first_tick + self.ticks) - self.first_tuple

    def _before(self, tick: int) -> int:
        return int(self.bursts.arrived_before(np.array([tick]))[0])

    def times_s(self, start: int, count: int) -> npt.NDArray[np.float64]:
        return self.bursts.times_s(self.first_tuple + start, count) - self.first_tick * self.bursts.tick_s

    def arrived(self, seconds: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return how many tuples have arrived by these moments of the part."""
        bounds = np.arange(self.ticks + 1)
        before = self.bursts.arrived_before(bounds + self.first_tick) - self.first_tuple
        arrived: npt.NDArray[np.float64] = np.interp(seconds, bounds * self.bursts.tick_s, before)
        return arrived

    def peak_tuples(self) -> float:
        """Return the most tuples that arrive in the time of a scan."""
        return self._peak()[0]

    def _peak(self) -> tuple[float, float]:
        """Return the most tuples of a scan, and its end."""
        # The most lie between two moments of which one is the border of a tick.
        borders = np.arange(self.ticks + 1) * self.bursts.tick_s
        ends = np.concatenate([borders, borders + self.scan_s])
        tuples = self.arrived(ends) - self.arrived(ends - self.scan_s)
        return float(np.max(tuples)), float(ends[np.argmax(tuples)])

    def busiest_ticks(self) -> "BurstyPart":
        """Return only the ticks around the peak: enough to see whether a fixed setting keeps up with it."""
        _, end_s = self._peak()
        # A fixed join takes in as many tuples per iteration from the beginning on: it need not be warm.
        tick_s = self.bursts.tick_s
        before = 0 if tick_s >= self.scan_s else math.ceil(2 * self.scan_s / tick_s)
        first = max(0, int((end_s - self.scan_s) / tick_s + 1e-9) - before)
        after = min(self.ticks, math.ceil(end_s / tick_s - 1e-9))
        return BurstyPart(self.bursts, self.first_tick + first, after - first, self.scan_s)
