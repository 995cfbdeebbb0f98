"""The cost of HYBRIDJOIN.

M. A. Naeem, G. Dobbie, G. Weber: "HYBRIDJOIN for Near-Real-Time Data Warehousing", IJDWM 7(4), 2011 (S1), sections 4.4
and 4.5; waiting and processing time, section 3.

Eq. 1  M = vP + alpha (M - vP) + (1 - alpha) (M - vP)                   `plan`: disk buffer, H and Q
Eq. 2  w = k hS d / Rt                                                  `PartitionLoads.of_window` (D1)
Eq. 3  c_loop = c_IO(vP) + (vP / vR) c_H + w (c_O + c_E + c_S + c_A)
Eq. 4  mu = w / c_loop

Symbols
-------
==========  ==============================  ===========================================
paper       here                            unit
==========  ==============================  ===========================================
``vP``      ``memory["disk buffer"]``       bytes
``vR``      ``table.row_bytes``             bytes
``d``       ``loop.master_rows``            rows of R in the disk buffer
``Rt``      ``table.rows``                  rows
``e``       ``stream.keys``                 a distribution of any form
==========  ==============================  ===========================================

Deviations
----------
D1  The paper measures k = 1.36 once, for one exponent on one machine. Here w follows from the rate at which each
    partition is asked for (`PartitionLoads`): near 2 hS d / Rt for equal partitions, more with skew.
D2  The disk buffer is held three times with space to search it. The index and results being built are in M. Sizes
    are those of the operator's structures: its own planning is asked.
D3  A partition is read with the page before it, on which its first key may begin: b + 1 pages for one seek, in one
    read, or in two where the memory is small.
D4  c_H is charged for every row that is read, as in the paper; the operator searches the sorted rows instead.
D5  Frequent keys lie anywhere in R, and so do keys without a row, unless `KeyDistribution.in_order` says that R is
    sorted by demand, as in the paper's experiments.
D6  When tuples arrive more slowly than they could be answered, loops go on at the same speed with fewer tuples each:
    T is then the one at which the disk keeps up. Work for single tuples is not taken out of c_loop.
"""

from functools import partial

from semistream.cost.join_case import JoinCase
from semistream.cost.model import LoopPlan, fitting_settings
from semistream.cost.models.partitions import PartitionMemory

__all__ = ["plan", "settings_to_try"]


def plan(case: JoinCase, memory_bytes: int, b: int | None = None) -> LoopPlan:
    """Solve Eq. 1 for hS, and Eq. 2 for w."""
    memory = PartitionMemory.of("hybridjoin", case, memory_bytes, b)
    return memory.loop_plan({}, memory.window, memory.loads(case.stream.keys, memory.window))


def settings_to_try(case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
    return fitting_settings(partial(PartitionMemory.of, "hybridjoin", case, memory_bytes), pages=case.table.pages)
