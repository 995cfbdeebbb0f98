"""The cost of MESHJOIN.

N. Polyzotis, S. Skiadopoulos, P. Vassiliadis, A. Simitsis, N.-E. Frantzell: "Supporting Streaming Updates in an
Active Data Warehouse", ICDE 2007 (S3), section 3.2, Eq. 1-6.

Eq. 1  M = b vP + w vS + w (N_R / b) sizeof(ptr) + w f (N_R / b) vS    `plan`: the w that a memory leaves room for
Eq. 2  c_loop = c_IO(b) + w (c_E + c_S + c_A) + b (vP / vR) c_H + sigma b (vP / vR) c_O
Eq. 3  mu = w / c_loop
Eq. 4  b / w reads per tuple, b / c_loop reads per second
Eq. 5  lambda c_loop <= w: every w that is large enough meets a rate
Eq. 6  w = lambda c_loop: the least such w

Symbols
-------
============  ==============================  ==========================================
paper         here                            unit
============  ==============================  ==========================================
``w``         ``settings["w"]``               stream tuples per iteration
``N_R``       ``table.pages``                 pages
``N_R / b``   ``loops_per_cycle``             iterations of a scan
``v_P``       ``table.page_bytes``            bytes
``v_R``       ``table.row_bytes``             bytes
``v_S f``     ``WindowShape.nbytes``          bytes of a tuple in H, structures included
``sigma``     ``loop.results / master_rows``  results per row read
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

from functools import partial

from semistream.cost.join_case import JoinCase
from semistream.cost.model import LoopPlan, fitting_settings
from semistream.cost.models.scans import ScanMemory
from semistream.operators.window.matching import matching_for
from semistream.state.tuple_window import WindowShape

__all__ = ["plan", "settings_to_try"]


def _memory(case: JoinCase, memory_bytes: int, b: int | None) -> ScanMemory:
    return ScanMemory.of("meshjoin", case, matching_for(case.spec), memory_bytes, b)


def plan(case: JoinCase, memory_bytes: int, b: int | None = None, w: int | None = None) -> LoopPlan:
    """Solve Eq. 1 for the largest w, or for the memory of a given w."""
    memory = _memory(case, memory_bytes, b)
    window = memory.window
    if w is not None and w * memory.iterations < window.capacity:
        capacity = w * memory.iterations
        window = WindowShape(capacity, window.ring_bytes * capacity // window.capacity)
    plan = memory.loop_plan({}, window)
    plan.settings["w"] = plan.loop.tuples if w is None else w
    return plan


def settings_to_try(case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
    return fitting_settings(partial(_memory, case, memory_bytes), pages=case.table.pages)
