"""The cost of MESHJOIN.

N. Polyzotis, S. Skiadopoulos, P. Vassiliadis, A. Simitsis, N.-E. Frantzell: "Supporting Streaming Updates in an
Active Data Warehouse", ICDE 2007 (S3), section 3.2, Eq. 1-6.

Eq. 1  M = b vP + w vS + w (N_R / b) sizeof(ptr) + w f (N_R / b) vS    `plan`: the w that a memory leaves room for
Eq. 2  c_loop = c_IO(b) + w (c_E + c_S + c_A) + b (vP / vR) c_H + sigma b (vP / vR) c_O
                                                                       counts here (`Loop`), factors in a `Clock`
Eq. 3  mu = w / c_loop                                                 `Prediction.tuples_per_s`
Eq. 4  b / w reads per tuple, b / c_loop reads per second              `reads_per_tuple`, `reads_per_s`
Eq. 5  lambda c_loop <= w: every w that is large enough meets a rate
Eq. 6  w = lambda c_loop: the least such w                             `least_w`

Symbols
-------
============  ==============================  ==========================================
paper         here                            unit
============  ==============================  ==========================================
``M``         ``memory_bytes``                bytes
``b``         ``settings["b"]``               pages per iteration
``w``         ``settings["w"]``               stream tuples per iteration
``N_R``       ``table.pages``                 pages
``N_R / b``   ``loops_per_cycle``             iterations of a scan
``v_P``       ``table.page_bytes``            bytes
``v_R``       ``table.row_bytes``             bytes
``v_S f``     ``WindowShape.nbytes``          bytes of a tuple in H, structures included
``sigma``     ``loop.results / master_rows``  results per row read
``mu``        ``tuples_per_s``                tuples per second
``lambda``    ``arrivals_per_s``              tuples per second
``c_loop``    ``loop_s``                      seconds
============  ==============================  ==========================================

Deviations
----------
D1  H and Q take the bytes of the operator's structures, so f and the size of a pointer have no symbol. They do not grow
    evenly with w: Eq. 1 is solved by a search for the largest window that fits.
D2  The disk buffer is held three times (D5 of the operator), with space to probe its rows. The directory of pages, a
    queue entry for every chunk and results being built are in M as well.
D3  The stream buffer has its own share of M, at least w tuples: 1/32 of the memory of H and Q, more for short scans.
D4  c_IO(b) is seeks and bytes. A scan seeks once in each file, and its last read may be shorter (D2 of the operator):
    counts are means over a scan.
D5  The paper's table of symbols and Eq. 4 swap the names of the reads per tuple and per second.
D6  A tuple is answered when it has met all of R, a whole scan after it was read. S1 (section 3) counts half a scan,
    the mean time until one match is found.
"""

from semistream.cost.join_case import JoinCase
from semistream.cost.loop import Loop
from semistream.cost.model import LoopPlan, Settings, Times, checked_settings, fitting_settings, register_model
from semistream.cost.models.scans import ScanMemory, scan_times
from semistream.operators.window.matching import matching_for
from semistream.state.tuple_window import WindowShape

__all__ = ["MeshjoinModel", "least_w", "reads_per_s", "reads_per_tuple"]

_NAME = "meshjoin"


@register_model(_NAME)
class MeshjoinModel:
    """S3's cost model, with settings ``b`` and ``w``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from semistream.core.semantics import JoinSpec
    >>> from semistream.cost.join_case import StreamShape, TableShape
    >>> from semistream.cost.key_distribution import KeyDistribution
    >>> table = TableShape(rows=1_000_000, pages=2000, num_bytes=120_000_000)
    >>> spec = JoinSpec.resolve(pa.schema({"id": "int64"}), pa.schema({"id": "int64", "name": "int64"}), "id")
    >>> case = JoinCase(table, StreamShape(keys=KeyDistribution.zipf(1_000_000, 0.5)), spec)
    >>> plan = MeshjoinModel().plan(case, 12_000_000, {"b": 10})
    >>> plan.loops_per_cycle, plan.loop.pages, round(plan.loop.tuples) == round(plan.window_tuples / 200)
    (200, 10.0, True)
    """

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Solve Eq. 1 for the largest w, or for the memory of a given w."""
        given = checked_settings(_NAME, settings, ("b", "w"))
        memory = self._memory(case, memory_bytes, given.get("b"))
        window = memory.window
        w = given.get("w")
        if w is not None and w * memory.iterations < window.capacity:
            capacity = w * memory.iterations
            window = WindowShape(capacity, window.ring_bytes * capacity // window.capacity)
        plan = memory.loop_plan({}, window)
        plan.settings["w"] = plan.loop.tuples if w is None else w
        return plan

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return half a loop, and a scan (D6)."""
        return scan_times(plan, loop_s)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return every b that leaves room for a window, in even ratios."""
        return fitting_settings(lambda b: self._memory(case, memory_bytes, b), pages=case.table.pages)

    @staticmethod
    def _memory(case: JoinCase, memory_bytes: int, b: int | None) -> ScanMemory:
        return ScanMemory.of(_NAME, case, matching_for(case.spec), memory_bytes, b)


def reads_per_tuple(loop: Loop) -> float:
    """Return the pages that are read for a stream tuple: Eq. 4, b / w."""
    return loop.pages / loop.tuples


def reads_per_s(loop: Loop, loop_s: float) -> float:
    """Return the pages that are read in a second: Eq. 4, b / c_loop."""
    return loop.pages / loop_s


def least_w(arrivals_per_s: float, loop_s: float) -> float:
    """Return the least w that meets an arrival rate: Eq. 6."""
    return arrivals_per_s * loop_s
