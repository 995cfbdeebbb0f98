"""Joins that scan R: how they split their memory (S3, Eq. 1), their loop, and the times of tuples.

The operators' own planning is asked, with the sizes of a shape in place of those of a staged table.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from semistream.cost.join_case import JoinCase, TableShape
from semistream.cost.loop import Loop
from semistream.cost.model import LoopPlan, Times
from semistream.operators.phases.chunk_queue import CHUNK_BYTES
from semistream.operators.phases.scan_plan import PageSizes, ScanPlan, ScanPlanner
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.stream_buffer import StreamBuffer
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import VarlenSizes, WindowCodes, WindowShape

__all__ = ["ScanMemory", "buffer_tuples", "page_sizes", "scan_times", "window_shape"]

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


def buffer_tuples(case: JoinCase, plan: ScanPlan) -> int:
    """Return how many tuples the stream buffer holds for an iteration when the stream never lacks any."""
    tuple_bytes = TupleStore.fixed_bytes_per_tuple(case.spec.stream_schema) + case.stream.varlen_bytes
    return StreamBuffer.tuples_in(plan.stream_buffer_bytes, tuple_bytes)


@dataclass(frozen=True)
class ScanMemory:
    """The budget of a scanning join, planned.

    Attributes
    ----------
    plan
        The split, as the operator makes it.
    results_bytes
        Memory of results being built.
    """

    case: JoinCase
    codes: WindowCodes
    pages: PageSizes
    plan: ScanPlan
    results_bytes: int

    @staticmethod
    def of(
        name: str, case: JoinCase, codes: WindowCodes, memory_bytes: int, b: int | None, cache_share: float = 0.0
    ) -> "ScanMemory":
        """Plan as the operator ``name`` does; raise `BudgetTooSmall`, naming the least that would do."""
        pages = page_sizes(case.table, case.spec.master_schema)
        results_bytes = Delivery(case.spec, memory_bytes, ordered=False).reserved_bytes
        planner = ScanPlanner(
            pages,
            case.spec,
            codes,
            budget_bytes=memory_bytes,
            other_bytes=results_bytes,
            ordered=False,
            what=f"{name} on {case.table.pages} pages",
            cache_share=cache_share,
        )
        return ScanMemory(case, codes, pages, planner.plan(b), results_bytes)

    @property
    def iterations(self) -> int:
        """The papers' k: reads for one scan of R."""
        return self.plan.iterations_per_cycle

    @property
    def most_tuples(self) -> int:
        """The most tuples that the stream buffer has for an iteration."""
        return buffer_tuples(self.case, self.plan)

    @cached_property
    def window(self) -> WindowShape:
        """H_S with Q in its share."""
        return window_shape(self.case, self.codes, self.plan.window_bytes)

    def loop_plan(
        self,
        settings: dict[str, float],
        window: WindowShape,
        cached_share: float = 0.0,
        cache_components: Mapping[str, int] | None = None,
    ) -> LoopPlan:
        """Return the loop with this window, behind a cache that answers a share of the tuples."""
        hash_bytes, queue_bytes = window.nbytes(self.codes, self.case.spec.stream_schema, False)
        disk_tuples = min(window.capacity / self.iterations, self.most_tuples * (1 - cached_share))
        cached_tuples = disk_tuples * cached_share / (1 - cached_share) if cached_share < 1 else float(self.most_tuples)
        return LoopPlan(
            settings={"b": self.plan.b, **settings},
            memory={
                "disk buffer": self.plan.disk_bytes,
                "index": self.pages.index_bytes,
                "stream buffer": self.plan.stream_buffer_bytes,
                "H_S": hash_bytes,
                "queue": queue_bytes + self.plan.chunks * CHUNK_BYTES,
                "results": self.results_bytes,
                **(cache_components or {}),
            },
            loop=self._loop(disk_tuples, cached_tuples),
            loops_per_cycle=self.iterations,
            window_tuples=window.capacity,
        )

    def _loop(self, disk_tuples: float, cached_tuples: float) -> Loop:
        """Return the counts of one iteration, on average over a scan: the last read of a file may be shorter.

        A cache that answers all tuples leaves nothing to read.
        """
        table = self.case.table
        iterations = self.iterations if disk_tuples else math.inf
        return Loop(
            cached_tuples=cached_tuples,
            disk_tuples=disk_tuples,
            master_rows=table.rows / iterations,
            results=(cached_tuples + disk_tuples) * self.case.results_per_tuple,
            reads=1 if disk_tuples else 0,
            seeks=len(self.pages.pages_per_file) / iterations,
            pages=table.pages / iterations,
            bytes_read=table.num_bytes / iterations,
        )


def scan_times(plan: LoopPlan, loop_s: float) -> Times:
    """Return half a loop of waiting, then a loop for a tuple from the cache, or else a scan of R.

    The arrival rate plays no part: when the stream is slow, loops go on with fewer tuples.
    """
    through_cache = plan.loop.cache_share
    processing_s = through_cache * loop_s + (1 - through_cache) * plan.loops_per_cycle * loop_s
    return Times(waiting_s=loop_s / 2, processing_s=processing_s)
