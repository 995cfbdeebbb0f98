"""The memory budget: bytes held by each component of an operator, and the limit on their sum."""

import os
from dataclasses import dataclass, field

from semistream.core.errors import BudgetTooSmall, StateTooLarge
from semistream.core.sizes import format_bytes

__all__ = ["MemoryReport", "require_at_least", "require_on_machine"]


@dataclass(frozen=True)
class MemoryReport:
    """Bytes held by each component of an operator.

    Attributes
    ----------
    budget_bytes
        The limit that the sum never exceeds.
    components
        Bytes by component, named as the paper names the structure.
    """

    budget_bytes: int
    components: dict[str, int] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        return sum(self.components.values())

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {format_bytes(size)}" for name, size in self.components.items())
        return f"{format_bytes(self.total_bytes)} of {format_bytes(self.budget_bytes)}: {parts}"


def require_at_least(budget_bytes: int, least_bytes: int, what: str) -> None:
    """Raise `BudgetTooSmall`, which names the least budget, if the budget is below it."""
    if budget_bytes < least_bytes:
        raise BudgetTooSmall(
            f"memory={budget_bytes} bytes is too small for {what}: give at least {least_bytes} bytes "
            f"({format_bytes(least_bytes)})",
            least_bytes,
            what,
        )


def require_on_machine(budget_bytes: int) -> None:
    """Raise `StateTooLarge` if the budget is more than this machine has: using it would end the process."""
    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if budget_bytes > machine_bytes:
        raise StateTooLarge(
            f"memory={budget_bytes} bytes ({format_bytes(budget_bytes)}) is more than this machine has: "
            f"give at most its {machine_bytes} bytes ({format_bytes(machine_bytes)})"
        )
