"""Advice: algorithms with layout and settings for a join, best first, each with its prediction."""

import math
from dataclasses import dataclass
from typing import Any

from semistream.core.sizes import format_bytes
from semistream.cost.advice.stream_sample import StreamEstimate
from semistream.cost.advice.tuner import SettingRange
from semistream.cost.clock import Clock
from semistream.cost.join_case import JoinCase, Layout
from semistream.cost.model import Prediction
from semistream.operators import algorithm

__all__ = ["Advice", "Alternative"]


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """An algorithm on a table of some layout and page size, with the settings that suit it best.

    Attributes
    ----------
    page_bytes
        The size of pages.
    stage_again
        Whether the table has another layout or page size now.
    prediction
        With the memory that was given, or else with the least for the rate.
    meets_rate
        Whether it keeps up with the rate that was asked for; None without one.
    least_memory_bytes
        The least memory for that rate; None without a rate, or when no memory allowed reaches it.
    good_settings
        The range in which each setting is about as good.
    case
        The join that the prediction is of.
    """

    algorithm: str
    layout: Layout
    page_bytes: int
    stage_again: bool
    prediction: Prediction
    meets_rate: bool | None
    least_memory_bytes: int | None
    good_settings: dict[str, SettingRange]
    case: JoinCase

    @property
    def tuples_per_s(self) -> float:
        return self.prediction.tuples_per_s

    @property
    def cache_share(self) -> float:
        """The share of tuples that a cache answers."""
        return self.prediction.plan.loop.cache_share

    @property
    def settings(self) -> dict[str, float]:
        """Options for the algorithm, as `semistream.operator` takes them."""
        options = algorithm(self.algorithm).option_names
        return {
            name: max(1, int(value)) if name in ("b", "w") else float(value)
            for name, value in self.prediction.plan.settings.items()
            if name in options
        }

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; an unlimited rate is None."""
        times = self.prediction.times
        return {
            "algorithm": self.algorithm,
            "layout": self.layout,
            "page_bytes": self.page_bytes,
            "stage_again": self.stage_again,
            "tuples_per_s": self.tuples_per_s if math.isfinite(self.tuples_per_s) else None,
            "meets_rate": self.meets_rate,
            "budget_bytes": self.prediction.budget_bytes,
            "memory": dict(self.prediction.plan.memory),
            "cache_share": self.cache_share,
            "processing_s": None if times is None else times.processing_s,
            "waiting_s": None if times is None else times.waiting_s,
            "least_memory_bytes": self.least_memory_bytes,
            "settings": self.settings,
            "good_settings": {name: list(values) for name, values in self.good_settings.items()},
        }

    def __str__(self) -> str:
        pages = format_bytes(self.page_bytes).replace(".0", "")
        return f"{self.algorithm} on a {self.layout} table with pages of {pages}"


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Alternatives, best first, and their assumptions.

    Attributes
    ----------
    clock_used
        The clock of the predictions.
    rate, memory_bytes
        The targets asked for; None where left open.
    buckets
        How many buckets to stage the table in.
    why
        Why the first alternative is the best, in a sentence or two.
    stream
        The estimate from a sample of the stream; None without one.
    assumptions
        Assumptions where nothing was known.
    left_out
        Why an algorithm is not among the alternatives, by its name.
    """

    table: str
    clock_used: Clock
    rate: float | None
    memory_bytes: int | None
    alternatives: tuple[Alternative, ...]
    buckets: int
    why: str
    stream: StreamEstimate | None
    assumptions: tuple[str, ...]
    left_out: dict[str, str]

    @property
    def clock(self) -> str:
        """The name of the clock."""
        return self.clock_used.name

    @property
    def recommended(self) -> Alternative:
        """The first of the alternatives."""
        return self.alternatives[0]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        stream = self.stream
        return {
            "table": self.table,
            "clock": self.clock,
            "rate": self.rate,
            "memory_bytes": self.memory_bytes,
            "recommended": {**self.recommended.as_dict(), "buckets": self.buckets, "why": self.why},
            "alternatives": [each.as_dict() for each in self.alternatives],
            "stream": None
            if stream is None
            else {
                "tuples": stream.tuples,
                "distinct_keys": stream.distinct_keys,
                "zipf_exponent": stream.exponent,
                "missing_share": stream.shape.missing_share,
                "null_share": stream.null_share,
                "varlen_bytes": stream.shape.varlen_bytes,
            },
            "assumptions": list(self.assumptions),
            "left_out": dict(self.left_out),
        }
