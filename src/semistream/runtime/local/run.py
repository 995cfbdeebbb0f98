"""Runs an operator in this process: offers batches as fast as it takes them, steps, drains."""

import time
from collections.abc import Generator, Iterable

import pyarrow as pa

from semistream.core.contract import Operator
from semistream.runtime.local.self_tuning import SelfTuning

__all__ = ["run"]


def run(
    op: Operator, batches: Iterable[pa.RecordBatch], tuning: SelfTuning | None = None
) -> Generator[pa.RecordBatch, None, None]:
    """Join all batches of a stream and yield the results as they come.

    Closes the operator after the last result, or when reading stops early.

    Parameters
    ----------
    op
        From `operator`.
    batches
        Record batches of the declared stream schema; a generator is read only as fast as the operator takes it.
    tuning
        Retunes the running operator by the arrival rate of the batches.
    """
    if tuning is not None:
        tuning.require_for(op)
    arrived = 0
    try:
        for batch in batches:
            arrived += batch.num_rows
            taken = op.offer(batch)
            if tuning is not None:
                tuning.observe(time.monotonic(), arrived)
            while taken < batch.num_rows:
                yield from op.step()
                taken += op.offer(batch.slice(taken))
                if tuning is not None:
                    tuning.observe(time.monotonic(), arrived)
        yield from op.drain()
    finally:
        op.close()
