"""The joins that are compared: S4's fixed settings of MJoin, what MJoin chooses itself, XJoin and SHJ."""

from typing import Any

from semistream.bench.measurements.two_streams.stream_pairs import StreamPair
from semistream.core.errors import InvalidArgument
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.metadata.cost_choice import Goal
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.shj import Shj
from semistream.stream_joins.xjoin import Xjoin

__all__ = ["make_join", "require_setting"]

_GOALS: tuple[Goal, ...] = ("output", "memory", "propagation")
_BUDGET_BYTES = 256 << 20  # all stays in memory, as in S4's figures
_QUOTA = 8192
_BASELINES = {"xjoin": Xjoin, "shj": Shj}
_OPTIONS: dict[str, dict[str, Any]] = {
    "priority+value": {"stream_order": "priority", "tuple_order": "value", "quota": _QUOTA},
    "random+sequential": {"stream_order": "random", "tuple_order": "sequential", "quota": _QUOTA},
    "purge every 1": {"purge_every": 1},
    "purge every 100": {"purge_every": 100},
    **{f"chosen for {goal}": {"goal": goal} for goal in _GOALS},
    "no propagation": {"pass_on": False},
}


def require_setting(setting: str) -> None:
    """Raise unless ``setting`` names a join."""
    for part in setting.split(", "):
        if setting not in _BASELINES and part not in _OPTIONS:
            raise InvalidArgument(f"setting {part!r} is unknown: use {', '.join((*_BASELINES, *_OPTIONS))}")


def make_join(setting: str, pair: StreamPair) -> StreamJoin:
    """Return a join by its name: "xjoin", "shj", or settings of MJoin, joined by commas."""
    require_setting(setting)
    if setting in _BASELINES:
        return _BASELINES[setting](*pair.schemas, pair.on, _BUDGET_BYTES)
    options: dict[str, Any] = {}
    for part in setting.split(", "):
        options |= _OPTIONS[part]
    return Mjoin(*pair.schemas, pair.on, _BUDGET_BYTES, relation="one-to-many", **options)
