"""What the cost models of joins that scan R share: their loop, and the times of tuples."""

from semistream.cost.loop import Loop
from semistream.cost.model import LoopPlan, Times
from semistream.cost.result_rows import results_per_tuple
from semistream.cost.scan_memory import ScanMemory

__all__ = ["scan_loop", "scan_times"]


def scan_loop(memory: ScanMemory, disk_tuples: float, cached_tuples: float = 0.0) -> Loop:
    """Return the counts of one iteration, on average over a scan: the last read of a file may be shorter.

    Nothing is read for tuples that are all answered by a cache.
    """
    table, k = memory.case.table, memory.iterations
    if not disk_tuples:
        results = cached_tuples * results_per_tuple(memory.case)
        return Loop(
            cached_tuples=cached_tuples,
            disk_tuples=0,
            master_rows=0,
            results=results,
            reads=0,
            seeks=0,
            pages=0,
            bytes_read=0,
        )
    return Loop(
        cached_tuples=cached_tuples,
        disk_tuples=disk_tuples,
        master_rows=table.rows / k,
        results=(cached_tuples + disk_tuples) * results_per_tuple(memory.case),
        reads=1,
        seeks=len(memory.pages.pages_per_file) / k,
        pages=table.pages / k,
        bytes_read=table.num_bytes / k,
    )


def scan_times(plan: LoopPlan, loop_s: float) -> Times:
    """Return the times of tuples: half a loop until one begins, then a loop from the cache, or else a scan of R.

    They do not depend on the arrival rate: loops go on, with fewer tuples, when the stream is slow.
    """
    through_cache = plan.loop.cache_share
    processing_s = through_cache * loop_s + (1 - through_cache) * plan.loops_per_cycle * loop_s
    return Times(waiting_s=loop_s / 2, processing_s=processing_s)
