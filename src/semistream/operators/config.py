"""Settings that several algorithms share."""

from dataclasses import dataclass

from semistream.core.arguments import require_count
from semistream.core.semantics import Order, require_order
from semistream.operators.shedding.load_shedding import SheddingConfig, Strategy
from semistream.storage import Io

__all__ = ["JoinConfig", "WindowConfig"]


@dataclass(frozen=True, kw_only=True)
class JoinConfig:
    """Settings of every join.

    Attributes
    ----------
    order
        ``"any"``, or ``"stream"`` for output in the order of the stream.
    io
        ``"buffered"``, or ``"drop_behind"`` to leave nothing in the page cache.
    """

    order: Order = "any"
    io: Io = "buffered"

    def __post_init__(self) -> None:
        require_order(self.order)
        for count in ("b", "w"):  # of the algorithms that have them
            require_count(count, getattr(self, count, None), optional=True)


@dataclass(frozen=True, kw_only=True)
class WindowConfig(JoinConfig):
    """Settings of joins whose tuples wait in a window; None is worked out from the budget.

    Attributes
    ----------
    b
        Pages of R per read.
    shedding
        What to do with tuples that arrive faster than they are joined: a strategy or a `SheddingConfig`. None lets them
        wait outside: `offer` refuses them. ``"considering"`` is for HYBRIDJOIN and CHYBRIDJOIN.
    """

    b: int | None = None
    shedding: SheddingConfig | Strategy | None = None
