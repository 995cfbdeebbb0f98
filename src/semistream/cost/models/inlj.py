"""The cost of INLJ.

N. Polyzotis, S. Skiadopoulos, P. Vassiliadis, A. Simitsis, N.-E. Frantzell: "Supporting Streaming Updates in an
Active Data Warehouse", ICDE 2007 (S3), section 4.1. The paper measures it and gives no model; the form is that of its
Eq. 2 and 3::

    c_loop = w (pages read for a tuple c_IO + c_S + c_O)
    mu     = w / c_loop

A tuple has its page read unless the page is in the buffer pool, which keeps the pages used last (`pool_misses`).

Deviations
----------
D1  The paper's index is a B+-tree on disk, and its pages share the pool. Here, as in the operator, the first keys of
    all pages are in memory, and a look-up reads pages of rows alone.
D2  Frequent keys lie anywhere in R, and so do keys without a row, unless `KeyDistribution.in_order` says that R is
    sorted by demand.
D3  A key that begins a page may also end the page before: both are asked for, and read in one go.
D4  A page larger than a slot of the pool takes several, and the pool has no others than average pages here.
"""

from semistream.cost.join_case import JoinCase
from semistream.cost.model import LoopPlan
from semistream.cost.models.lookups import lookup_memory, lookup_plan
from semistream.operators.inlj import DEFAULT_W, inlj_split

__all__ = ["plan", "settings_to_try"]


def plan(case: JoinCase, memory_bytes: int, w: int = DEFAULT_W) -> LoopPlan:
    memory = lookup_memory("inlj", case, memory_bytes)
    return lookup_plan(case, memory, inlj_split(memory, f"inlj on {case.table.pages} pages"), {}, w)


def settings_to_try(case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
    """Return the operator's own w: a step is as long as its tuples, so any w is as good."""
    return [{"w": plan(case, memory_bytes).settings["w"]}]
