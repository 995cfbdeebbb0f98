"""The old place of `semistream.core.saved_state`, until every import names the new one."""

from semistream.core.saved_state import FORMAT, Array, SavedState, pack_state, unpack_state

__all__ = ["FORMAT", "Array", "SavedState", "pack_state", "unpack_state"]
