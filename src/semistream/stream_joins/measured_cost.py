"""What a piece of work costs: a fixed part and a part per element, learned from how long it took."""

__all__ = ["LineCost", "RecentRatio"]

_FORGOTTEN = 0.05  # of what was seen, at each new observation
_ASSUMED_WEIGHT = 0.01  # of what was assumed, against an observation; more while there are few
_SURPRISE = 2.0  # times what was expected: more is taken for something else that ran, or was compiled, meanwhile
_LEAST_SHARE = 0.01  # of what was assumed at first: no part of a cost becomes nothing


class LineCost:
    """Seconds of work on n elements, ``fixed_s + per_element_s * n``: least squares of relative errors.

    What was assumed at first gives the ratio of both parts until they can be told apart, and what was seen their size.

    Examples
    --------
    >>> cost = LineCost(fixed_s=1.0, per_element_s=0.1)
    >>> for elements in [10, 1000] * 50:
    ...     cost.observe(elements, 4.0 + 0.1 * elements)
    >>> round(cost.fixed_s, 1), round(cost.per_element_s, 2)
    (4.0, 0.1)
    """

    def __init__(self, fixed_s: float, per_element_s: float) -> None:
        self.fixed_s = fixed_s
        self.per_element_s = per_element_s
        self._assumed = (fixed_s, per_element_s)
        self._scale = 1.0  # of what is seen to what was assumed
        self._observations = 0
        self._sums = [0.0] * 5  # of w, w n, w n^2, w t, w n t

    def seconds(self, elements: float) -> float:
        """Return what work on some elements is expected to take."""
        return self.fixed_s + self.per_element_s * elements

    def observe(self, elements: int, seconds: float) -> None:
        """Learn from one piece of work."""
        seconds = min(seconds, _SURPRISE * self.seconds(elements))
        fixed_s, per_element_s = self._assumed
        seen_scale = seconds / (fixed_s + per_element_s * elements)
        self._scale += _FORGOTTEN * 2 * (seen_scale - self._scale)
        self._sums = [
            (1 - _FORGOTTEN) * old + new for old, new in zip(self._sums, self._terms(elements, seconds), strict=True)
        ]
        turn = fixed_s / per_element_s  # so many elements take as long as the fixed part
        self._observations += 1
        trust = max(_ASSUMED_WEIGHT, 1 / self._observations)
        assumed = [
            [trust * term for term in self._terms(n, self._scale * (fixed_s + per_element_s * n))] for n in (0.0, turn)
        ]
        w, wn, wnn, wt, wnt = (sum(terms) for terms in zip(self._sums, *assumed, strict=True))
        slope = (w * wnt - wn * wt) / (w * wnn - wn * wn)
        self.per_element_s = max(slope, _LEAST_SHARE * self._scale * per_element_s)
        self.fixed_s = max((wt - self.per_element_s * wn) / w, _LEAST_SHARE * self._scale * fixed_s)

    def _terms(self, elements: float, seconds: float) -> list[float]:
        fixed_s, per_element_s = self._assumed
        weight = (1 + elements * per_element_s / fixed_s) ** -2  # errors are relative to what is expected
        return [weight, weight * elements, weight * elements**2, weight * seconds, weight * elements * seconds]

    def state(self) -> list[float]:
        """Return what `set_state` takes."""
        return [self.fixed_s, self.per_element_s, self._scale, float(self._observations), *self._sums]

    def set_state(self, state: list[float]) -> None:
        """Go on where another one was."""
        self.fixed_s, self.per_element_s, self._scale, observations, *self._sums = state
        self._observations = int(observations)


class RecentRatio:
    """How many of one thing there are to another, the recent ones counting most.

    Parameters
    ----------
    first
        The ratio before anything was seen.
    memory
        How many of the other thing are remembered.

    Examples
    --------
    >>> ratio = RecentRatio(first=0.5, memory=100)
    >>> ratio.observe(300, of=100)
    >>> ratio.value
    1.75
    """

    def __init__(self, first: float, memory: float) -> None:
        self.value = first
        self._memory = memory

    def observe(self, count: float, of: float) -> None:
        """Take in what was counted."""
        if of > 0:
            self.value += of / (of + self._memory) * (count / of - self.value)
