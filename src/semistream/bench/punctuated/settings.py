"""The joins that are compared: S4's fixed settings of MJoin, what MJoin chooses itself, XJoin and SHJ."""

from typing import Any

from semistream.bench.punctuated.stream_pairs import StreamPair
from semistream.core.errors import InvalidArgument
from semistream.stream_joins.look_ahead import Goal
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.shj import Shj
from semistream.stream_joins.stream_join import StreamJoin
from semistream.stream_joins.xjoin import Xjoin

__all__ = ["BATCH", "GOALS", "IMMEDIATE", "PRIORITY", "RANDOM", "chosen", "fixed", "make_join"]

GOALS: tuple[Goal, ...] = ("output", "memory", "propagation")

PRIORITY, RANDOM = "priority+value", "random+sequential"
IMMEDIATE, BATCH = "purge every 1", "purge every 100"

_BUDGET_BYTES = 256 << 20  # all stays in memory, as in S4's figures
_QUOTA = 8192
_OPTIONS: dict[str, dict[str, Any]] = {
    PRIORITY: {"stream_order": "priority", "tuple_order": "value", "quota": _QUOTA},
    RANDOM: {"stream_order": "random", "tuple_order": "sequential", "quota": _QUOTA},
    IMMEDIATE: {"purge_every": 1},
    BATCH: {"purge_every": 100},
    **{f"chosen for {goal}": {"goal": goal} for goal in GOALS},
    "no propagation": {"pass_on": False},
}


def fixed(scheduling: str, purging: str) -> str:
    """Return the name of fixed settings."""
    return f"{scheduling}, {purging}"


def chosen(goal: str) -> str:
    """Return the name of what MJoin chooses for a goal."""
    return f"chosen for {goal}"


def make_join(setting: str, pair: StreamPair) -> StreamJoin:
    """Return a join by its name: "xjoin", "shj", or settings of MJoin, joined by commas."""
    if setting in ("xjoin", "shj"):
        return {"xjoin": Xjoin, "shj": Shj}[setting](*pair.schemas, pair.on, _BUDGET_BYTES)
    options: dict[str, Any] = {}
    for part in setting.split(", "):
        if part not in _OPTIONS:
            raise InvalidArgument(f"setting {part!r} is unknown: use xjoin, shj or {', '.join(_OPTIONS)}")
        options |= _OPTIONS[part]
    return Mjoin(*pair.schemas, pair.on, _BUDGET_BYTES, relation="one-to-many", **options)
