"""What the cost models of joins that scan R share: their loop, the times of tuples, and the b to choose from."""

from collections.abc import Callable, Sequence

from semistream.core.errors import BudgetTooSmall, InvalidArgument
from semistream.cost.loop import Loop
from semistream.cost.model import LoopPlan, Settings, Times
from semistream.cost.result_rows import results_per_tuple
from semistream.cost.scan_memory import ScanMemory

__all__ = ["b_and_cache_share_to_try", "b_to_try", "known_settings", "scan_loop", "scan_times", "whole"]

_B_RATIO = 1.19  # four steps to twice as many pages


def known_settings(name: str, settings: Settings, known: tuple[str, ...]) -> dict[str, float]:
    """Return the settings; raise `InvalidArgument` when one is not among those that the model of ``name`` knows."""
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise InvalidArgument(f"the cost model of {name} has no setting {unknown[0]!r}: use {', '.join(known)}")
    return dict(settings)


def whole(settings: Settings, name: str) -> int | None:
    """Return a setting that counts something, or None when it is not given."""
    value = settings.get(name)
    if value is None:
        return None
    if value != int(value) or value < 1:
        raise InvalidArgument(f"{name}={value} is not a whole number: give one, at least 1")
    return int(value)


def scan_loop(memory: ScanMemory, disk_tuples: float, cached_tuples: float = 0.0) -> Loop:
    """Return the counts of one iteration, on average over a scan: the last read of a file may be shorter.

    Nothing is read for tuples that are all answered by a cache.
    """
    table, k = memory.case.table, memory.iterations
    if not disk_tuples:
        results = cached_tuples * results_per_tuple(memory.case)
        return Loop(
            cached_tuples=cached_tuples, disk_tuples=0, master_rows=0, results=results, seeks=0, pages=0, bytes_read=0
        )
    return Loop(
        cached_tuples=cached_tuples,
        disk_tuples=disk_tuples,
        master_rows=table.rows / k,
        results=(cached_tuples + disk_tuples) * results_per_tuple(memory.case),
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


def b_to_try(pages: int, fits: Callable[[int], object]) -> list[int]:
    """Return numbers of pages, from 1 on in even ratios, up to all or to the last with which ``fits`` does not raise.

    It raises `BudgetTooSmall` when not even one page fits.
    """
    found: list[int] = []
    b = 1
    while True:
        try:
            fits(b)
        except BudgetTooSmall:
            if not found:
                raise
            return found
        found.append(b)
        if b == pages:
            return found
        b = min(pages, max(b + 1, round(b * _B_RATIO)))


def b_and_cache_share_to_try(
    pages: int, cache_shares: Sequence[float], fits: Callable[[int, float], object]
) -> list[dict[str, float]]:
    """Return the b to try with each share of the cache, from the smallest on; those that leave too little are left out.

    It raises `BudgetTooSmall` when not even the smallest fits, with one page.
    """
    found: list[dict[str, float]] = []
    for cache_share in sorted(cache_shares):
        try:
            fitting = b_to_try(pages, lambda b, share=cache_share: fits(b, share))  # type: ignore[misc]
        except BudgetTooSmall:
            if not found:
                raise
            break
        found += [{"b": b, "cache_share": cache_share} for b in fitting]
    return found
