"""What the driver knows of a part."""

from semistream.core.saved_state import SavedState

__all__ = ["Part"]


class Part:
    """One structure or strategy of a join. The defaults are those of a part that holds nothing."""

    def components(self) -> dict[str, int]:
        """Return the bytes that it holds, by the names of the memory report."""
        return {}

    def state(self) -> SavedState:
        """Return all that `set_state` needs to go on from here."""
        return SavedState()

    def set_state(self, saved: SavedState) -> None:
        """Take over the state of another part like this one, which has done nothing yet."""

    def close(self) -> None:
        """Give back what lies outside of memory."""

    def check(self) -> None:
        """Assert the invariants; for tests."""
