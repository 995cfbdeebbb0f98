"""Runs an operator in this process: offers batches as fast as it takes them, steps, drains."""

from collections.abc import Generator, Iterable

import pyarrow as pa

from semistream.core.contract import Operator

__all__ = ["run"]


def run(op: Operator, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """Join all batches of a stream and yield the results as they come.

    The operator is closed when the results have been read, or when reading stops early.

    Parameters
    ----------
    op
        From `operator`.
    batches
        Record batches of the declared stream schema; a generator is read only as fast as the operator takes it.
    """
    try:
        for batch in batches:
            taken = op.offer(batch)
            while taken < batch.num_rows:
                yield from op.step()
                taken += op.offer(batch.slice(taken))
        yield from op.drain()
    finally:
        op.close()
