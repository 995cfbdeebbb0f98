"""Stream rows whose key has a NULL in it: they match nothing, and are counted apart."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

__all__ = ["count_null_keys"]


def count_null_keys(batch: pa.RecordBatch, keys: Sequence[str]) -> int:
    """Return how many rows have a NULL in any of the key columns.

    Examples
    --------
    >>> count_null_keys(pa.record_batch({"a": [1, None, None], "b": [None, None, 2]}), ["a", "b"])
    3
    """
    columns = [column for column in map(batch.column, keys) if column.null_count]
    if len(columns) <= 1:
        return sum(column.null_count for column in columns)
    return int(
        np.count_nonzero(np.any([column.is_null().to_numpy(zero_copy_only=False) for column in columns], axis=0))
    )
