"""What was changed of a running operator's settings."""

from dataclasses import dataclass

__all__ = ["Retuned"]


@dataclass(frozen=True, kw_only=True)
class Retuned:
    """Settings that take the place of those an operator was made with; None where those stand.

    Attributes
    ----------
    b, w
        Pages and stream tuples per iteration.
    memory_bytes
        How much of its budget the operator is to use.
    """

    b: int | None = None
    w: int | None = None
    memory_bytes: int | None = None

    def updated(self, *, b: int | None, w: int | None, memory_bytes: int | None) -> "Retuned":
        """Return the settings after a further change."""
        return Retuned(b=b or self.b, w=w or self.w, memory_bytes=memory_bytes or self.memory_bytes)
