"""What a case may find, beside an error that is raised in more than one line or is not ours."""

import gc
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

__all__ = ["Escaped", "Finding", "ForeignMemory", "OverBudget", "filled_heap", "require_own"]

_CANARY = b"\xc3\x9fforeign-memory\xc3\x9f"
_LONGEST_VALUE = 1 << 16  # no page or ring is larger


class Finding(Exception):
    """Something that no changed file or state may bring about; ``kind`` counts it."""

    kind: str


class ForeignMemory(Finding):
    """A result holds bytes that are in no file."""

    kind = "foreign_memory"


class OverBudget(Finding):
    """A join holds more than its budget."""

    kind = "over_budget"


class Escaped(Finding):
    """A damaged copy changed rows, or a file was written where it does not belong."""

    kind = "escaped"


def filled_heap() -> list[bytes]:
    """Fill memory that was freed with a pattern, and return some that stays."""
    gc.collect()
    blocks = [_CANARY * (size // len(_CANARY) + 1) for size in (64, 512, 4096, 65536) for _ in range(16)]
    arrays = [np.frombuffer(block, np.uint8).copy() for block in blocks]
    del arrays
    return blocks[::2]


def require_own(batches: Iterable[pa.RecordBatch]) -> None:
    for batch in batches:
        batch.validate()  # not in full: text of a forged page need not be UTF-8, see SECURITY.md
        for column in batch.columns:
            if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
                continue
            for value in column.cast(pa.binary()).to_pylist():
                if value is not None and (len(value) > _LONGEST_VALUE or b"foreign-memory" in value):
                    raise ForeignMemory(f"a value of {len(value)} bytes: {value[:80]!r}")
