"""Small cost models whose best settings can be worked out by hand."""

from collections.abc import Mapping

from semistream.core.budget import require_at_least
from semistream.cost.join_case import JoinCase
from semistream.cost.loop import Loop
from semistream.cost.model import LoopPlan, Times

__all__ = ["TUPLE_BYTES", "FakeLookup", "FakeScan"]

TUPLE_BYTES = 20


class FakeScan:
    """MESHJOIN at its plainest: b pages in the disk buffer, every tuple waits for N_R / b loops."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Mapping[str, float]) -> LoopPlan:
        table = case.table
        b = settings.get("b", 1.0)
        disk_bytes = int(b * table.page_bytes)
        loops = table.pages / b
        require_at_least(memory_bytes, disk_bytes + int(loops * TUPLE_BYTES) + 1, "fake scan")
        window = (memory_bytes - disk_bytes) / TUPLE_BYTES
        tuples = window / loops
        loop = Loop(
            disk_tuples=tuples,
            master_rows=b * table.rows_per_page,
            results=tuples,
            reads=1,
            seeks=1,
            pages=b,
            bytes_read=disk_bytes,
        )
        return LoopPlan(
            settings={"b": b},
            memory={"disk buffer": disk_bytes, "H_S": memory_bytes - disk_bytes},
            loop=loop,
            loops_per_cycle=loops,
            window_tuples=window,
            times=lambda loop_s, _: Times(loop_s / 2, loop_s * loops),
        )

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        return [{"b": float(b)} for b in range(1, case.table.pages + 1)]


class FakeLookup:
    """A page for each tuple that is not cached; memory is a cache of the most frequent keys, one page apart."""

    def plan(self, case: JoinCase, memory_bytes: int, settings: Mapping[str, float]) -> LoopPlan:
        table = case.table
        page_bytes = int(table.page_bytes)
        require_at_least(memory_bytes, page_bytes, "fake look-up")
        share = settings.get("cache_share", 0.5)
        cached = case.stream.keys.share_of_top(share * (memory_bytes - page_bytes) / table.row_bytes)
        loop = Loop(
            cached_tuples=100 * cached,
            disk_tuples=100 * (1 - cached),
            master_rows=100 * (1 - cached) * table.rows_per_page,
            results=100,
            reads=100 * (1 - cached),
            seeks=100 * (1 - cached),
            pages=100 * (1 - cached),
            bytes_read=100 * (1 - cached) * page_bytes,
        )
        return LoopPlan(
            settings={"cache_share": share},
            memory={"H_R": memory_bytes - page_bytes, "disk buffer": page_bytes},
            loop=loop,
            loops_per_cycle=1,
            window_tuples=100,
            times=lambda loop_s, _: Times(0.0, loop_s),
        )

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        return [{"cache_share": share} for share in (0.1, 0.5, 0.9)]
