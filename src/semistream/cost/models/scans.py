"""How a join would split its memory on a table of a given shape: S3 Eq. 1, by the operators' own planning.

Nothing is worked out twice: the sizes of a shape are put in the place of those of a staged table.

What the cost models of joins that scan R share: their loop, and the times of tuples.
"""

from dataclasses import dataclass

import pyarrow as pa

from semistream.cost.join_case import JoinCase, TableShape
from semistream.cost.loop import Loop
from semistream.cost.model import LoopPlan, Times
from semistream.operators.phases.chunk_queue import CHUNK_BYTES
from semistream.operators.phases.page_sizes import PageSizes
from semistream.operators.phases.scan_plan import ScanPlan, ScanPlanner
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.stream_buffer import StreamBuffer
from semistream.state.tuple_store import TupleStore
from semistream.state.tuple_window import VarlenSizes, WindowCodes, WindowShape

__all__ = ["ScanMemory", "buffer_tuples", "page_sizes", "scan_loop", "scan_times", "window_shape"]

_PAGE_ENTRY_BYTES = 32  # of the directory of pages: file, offset, length, rows, checksum
_FIRST_CODE_BYTES = 8


def page_sizes(table: TableShape, master_schema: pa.Schema) -> PageSizes:
    """Return the sizes of the pages of a table, all alike."""
    largest_bytes = int(table.largest_page_bytes or -(-table.num_bytes // table.pages))
    per_file, more = divmod(table.pages, min(table.files, table.pages))
    files = min(table.files, table.pages)
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
    """Return how many tuples the stream buffer has for an iteration when the stream never lacks any."""
    tuple_bytes = TupleStore.fixed_bytes_per_tuple(case.spec.stream_schema) + case.stream.varlen_bytes
    return StreamBuffer.tuples_in(plan.stream_buffer_bytes, tuple_bytes)


@dataclass(frozen=True)
class ScanMemory:
    """The budget of a scanning join, planned.

    Attributes
    ----------
    pages
        Of the table.
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
        """Plan as the operator ``name`` does; raises `BudgetTooSmall`, naming the least that would do."""
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
    def buffer_tuples(self) -> int:
        """How many tuples the stream buffer has for an iteration when the stream never lacks any."""
        return buffer_tuples(self.case, self.plan)

    def window(self, window_bytes: int | None = None) -> WindowShape:
        """Return the shape of H_S with Q in its share, or in another."""
        return window_shape(self.case, self.codes, self.plan.window_bytes if window_bytes is None else window_bytes)

    def components(self, window: WindowShape) -> dict[str, int]:
        """Return bytes by component, named as `Operator.memory` names them."""
        hash_bytes, queue_bytes = window.nbytes(self.codes, self.case.spec.stream_schema, False)
        return {
            "disk buffer": self.plan.disk_bytes,
            "index": self.pages.index_bytes,
            "stream buffer": self.plan.stream_buffer_bytes,
            "H_S": hash_bytes,
            "queue": queue_bytes + self.plan.chunks * CHUNK_BYTES,
            "results": self.results_bytes,
        }


def scan_loop(memory: ScanMemory, disk_tuples: float, cached_tuples: float = 0.0) -> Loop:
    """Return the counts of one iteration, on average over a scan: the last read of a file may be shorter.

    Nothing is read for tuples that are all answered by a cache.
    """
    table, k = memory.case.table, memory.iterations
    if not disk_tuples:
        results = cached_tuples * memory.case.results_per_tuple
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
        results=(cached_tuples + disk_tuples) * memory.case.results_per_tuple,
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
