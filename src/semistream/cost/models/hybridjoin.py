"""The cost of HYBRIDJOIN.

M. A. Naeem, G. Dobbie, G. Weber: "HYBRIDJOIN for Near-Real-Time Data Warehousing", IJDWM 7(4), 2011 (S1), sections 4.4
and 4.5; waiting and processing time, section 3.

Eq. 1  M = vP + alpha (M - vP) + (1 - alpha) (M - vP)                   `plan`: disk buffer, H and Q
Eq. 2  w = k hS d / Rt                                                  `PartitionLoads.of_window` (D1)
Eq. 3  c_loop = c_IO(vP) + (vP / vR) c_H + w (c_O + c_E + c_S + c_A)    counts here (`Loop`), factors in a `Clock`
Eq. 4  mu = w / c_loop                                                  `Prediction.tuples_per_s`

Symbols
-------
==========  ==============================  ===========================================
paper       here                            unit
==========  ==============================  ===========================================
``M``       ``memory_bytes``                bytes
``vP``      ``memory["disk buffer"]``       bytes
``vR``      ``table.row_bytes``             bytes
``d``       ``loop.master_rows``            rows of R in the disk buffer
``hS``      ``window_tuples``               stream tuples in H
``w``       ``loop.disk_tuples``            stream tuples answered per iteration
``Rt``      ``table.rows``                  rows
``e``       ``stream.keys``                 a distribution of any form
``c_loop``  ``loop_s``                      seconds
``mu``      ``tuples_per_s``                tuples per second
``lambda``  ``arrivals_per_s``              tuples per second
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

from semistream.cost.join_case import JoinCase
from semistream.cost.model import LoopPlan, Settings, Times, checked_settings, fitting_settings, register_model
from semistream.cost.models.partitions import PartitionMemory, partition_times

__all__ = ["HybridjoinModel"]

_NAME = "hybridjoin"


@register_model(_NAME)
class HybridjoinModel:
    """S1's cost model, with the setting ``b``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from semistream.core.semantics import JoinSpec
    >>> from semistream.cost.join_case import StreamShape, TableShape
    >>> from semistream.cost.key_distribution import KeyDistribution
    >>> table = TableShape(rows=1_000_000, pages=2000, num_bytes=120_000_000, layout="clustered")
    >>> spec = JoinSpec.resolve(pa.schema({"id": "int64"}), pa.schema({"id": "int64", "name": "int64"}), "id")
    >>> case = JoinCase(table, StreamShape(keys=KeyDistribution.zipf(1_000_000, 0.0)), spec)
    >>> plan = HybridjoinModel().plan(case, 12_000_000, {"b": 4})
    >>> k = plan.loop.disk_tuples / (plan.window_tuples * 4 / 2000)  # of Eq. 2
    >>> plan.loop.seeks, round(k, 1)
    (1.0, 2.0)
    """

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Solve Eq. 1 for hS, and Eq. 2 for w."""
        given = checked_settings(_NAME, settings, ("b",))
        memory = PartitionMemory.of(_NAME, case, memory_bytes, given.get("b"))
        return memory.loop_plan({}, memory.window, memory.loads(case.stream.keys, memory.window))

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return the time until the next loop begins, and until the tuple's partition is read (D6)."""
        return partition_times(case, plan, loop_s, arrivals_per_s)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return every b that leaves room for a window, in even ratios."""
        return fitting_settings(lambda b: PartitionMemory.of(_NAME, case, memory_bytes, b), pages=case.table.pages)
