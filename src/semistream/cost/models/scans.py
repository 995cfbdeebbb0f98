"""Joins that scan R: how they split their memory (S3, Eq. 1), their loop, and the times of tuples.

The operators' own planning is asked, with the sizes of a shape in place of those of a staged table.
"""

import math
from dataclasses import dataclass
from functools import cached_property, partial

import pyarrow as pa

from semistream.cost.join_case import JoinCase, TableShape
from semistream.cost.model import LoopPlan, Times, loop_of
from semistream.cost.models.cache import NO_CACHE, Cached
from semistream.operators.phases.chunk_queue import CHUNK_BYTES
from semistream.operators.phases.memory_plan import MemoryPlan, MemoryPlanner, PageSizes
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.stream_buffer import StreamBuffer
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import VarlenSizes, WindowCodes, WindowShape

__all__ = ["ScanMemory", "buffer_tuples", "page_sizes", "window_shape"]

_PAGE_ENTRY_BYTES = 32  # of the directory of pages: file, offset, length, rows, checksum
_FIRST_CODE_BYTES = 8


def page_sizes(table: TableShape, master_schema: pa.Schema) -> PageSizes:
    """Return the sizes of the pages of a table, all alike."""
    largest_bytes = int(table.largest_page_bytes or -(-table.num_bytes // table.pages))
    files = min(table.files, table.pages)
    per_file, more = divmod(table.pages, files)
    entry_bytes = _PAGE_ENTRY_BYTES + (_FIRST_CODE_BYTES if table.layout == "clustered" else 0)
    return PageSizes(
        pages_per_file=tuple(per_file + (file < more) for file in range(files)),
        rows_per_page=round(table.rows_per_page * largest_bytes / table.page_bytes),
        index_bytes=table.pages * entry_bytes + 8 * (table.files + 1 + table.buckets + 1),
        header_bytes=len(master_schema.serialize()),
        run_bytes=lambda pages: min(pages * largest_bytes, table.num_bytes),
    )


def window_shape(case: JoinCase, codes: WindowCodes, window_bytes: int) -> WindowShape:
    """Return how many tuples of the stream a window of so many bytes holds."""
    text_bytes = case.stream.varlen_bytes
    varlen = VarlenSizes(text_bytes, int(text_bytes))
    return WindowShape.fitting(codes, case.spec.stream_schema, False, varlen, window_bytes)


def buffer_tuples(case: JoinCase, plan: MemoryPlan) -> int:
    """Return how many tuples the stream buffer holds for an iteration when the stream never lacks any."""
    tuple_bytes = TupleStore.fixed_bytes_per_tuple(case.spec.stream_schema) + case.stream.varlen_bytes
    return StreamBuffer.tuples_in(plan.stream_buffer_bytes, tuple_bytes)


@dataclass(frozen=True)
class ScanMemory:
    """The budget of a scanning join, split as the operator splits it, and H_S with Q in its share."""

    case: JoinCase
    codes: WindowCodes
    pages: PageSizes
    plan: MemoryPlan
    results_bytes: int

    @staticmethod
    def of(
        name: str, case: JoinCase, codes: WindowCodes, memory_bytes: int, b: int | None, cache_share: float = 0.0
    ) -> "ScanMemory":
        """Plan as the operator ``name`` does; raise `BudgetTooSmall`, naming the least that would do."""
        pages = page_sizes(case.table, case.spec.master_schema)
        results_bytes = Delivery(case.spec, memory_bytes, ordered=False).reserved_bytes
        planner = MemoryPlanner(
            what=f"{name} on {case.table.pages} pages",
            pages=pages,
            spec=case.spec,
            codes=codes,
            ordered=False,
            budget_bytes=memory_bytes,
            other_bytes=results_bytes,
            cache_share=cache_share,
        )
        return ScanMemory(case, codes, pages, planner.plan(b), results_bytes)

    @property
    def iterations(self) -> int:
        """The papers' k: reads for one scan of R."""
        return self.plan.iterations_per_cycle

    @cached_property
    def window(self) -> WindowShape:
        return window_shape(self.case, self.codes, self.plan.window_bytes)

    def loop_plan(self, settings: dict[str, float], window: WindowShape, cached: Cached = NO_CACHE) -> LoopPlan:
        """Return the loop with this window, on average over a scan: the last read of a file may be shorter.

        A cache that answers all tuples leaves nothing to read.
        """
        hash_bytes, queue_bytes = window.nbytes(self.codes, self.case.spec.stream_schema, False)
        most_tuples, misses = buffer_tuples(self.case, self.plan), 1 - cached.share
        disk_tuples = min(window.capacity / self.iterations, most_tuples * misses)
        scan_loops = self.iterations if disk_tuples else math.inf
        loop = loop_of(
            self.case,
            disk_tuples,
            disk_tuples * cached.share / misses if misses else float(most_tuples),
            pages=self.case.table.pages / scan_loops,
            reads=1 if disk_tuples else 0,
            seeks=len(self.pages.pages_per_file) / scan_loops,
        )
        return LoopPlan(
            settings={"b": self.plan.b, **settings},
            memory={
                "disk buffer": self.plan.disk_bytes,
                "index": self.pages.index_bytes,
                "stream buffer": self.plan.stream_buffer_bytes,
                "H_S": hash_bytes,
                "queue": queue_bytes + self.plan.chunks * CHUNK_BYTES,
                "results": self.results_bytes,
                **cached.memory,
            },
            loop=loop,
            loops_per_cycle=self.iterations,
            window_tuples=window.capacity,
            times=partial(_times, loop.cache_share, self.iterations),
        )


def _times(through_cache: float, scan_loops: float, loop_s: float, arrivals_per_s: float) -> Times:
    # The arrival rate plays no part: when the stream is slow, loops go on with fewer tuples.
    return Times(loop_s / 2, through_cache * loop_s + (1 - through_cache) * scan_loops * loop_s)
