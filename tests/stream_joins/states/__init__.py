"""A state of MJoin that an earlier commit wrote, and the join that it is of.

``python -m tests.stream_joins.states`` writes it anew, when `FORMAT` changes.
"""

import gzip
from pathlib import Path
from typing import Any

from semistream.core.saved_state import FORMAT
from semistream.stream_joins.driver import StreamJoin
from semistream.stream_joins.mjoin import Mjoin
from semistream.stream_joins.parts.join_key import LEFT, RIGHT
from tests.stream_joins.streams import LEFT_SCHEMA, RIGHT_SCHEMA, batch

__all__ = ["busy", "kept", "write"]

_FILE = Path(__file__).parent / f"mjoin-format-{FORMAT}.state.gz"


def busy(kind: type[StreamJoin] = Mjoin, **options: Any) -> StreamJoin:
    """Return a join with tuples in memory, on disk and in its queues, and with punctuations."""
    op = kind(LEFT_SCHEMA, RIGHT_SCHEMA, "key", 64 << 10, **options)
    for start in range(0, 600, 60):
        keys = list(range(start, start + 60))
        op.offer(LEFT, batch(LEFT, keys, start, [(60, start, start + 5)]))
        op.offer(RIGHT, batch(RIGHT, keys[:20], start, [(20, start + 30, start + 30)]))
        while op.queued(LEFT) or op.queued(RIGHT):
            list(op.step())
    op.offer(LEFT, batch(LEFT, [1000, None], 600, [(1, 1001, 1001)]))
    return op


def kept() -> bytes:
    """Return the kept state."""
    return gzip.decompress(_FILE.read_bytes())


def write() -> None:
    """Write the state as it is now."""
    op = busy()
    _FILE.write_bytes(gzip.compress(op.snapshot(), mtime=0))
    op.close()
