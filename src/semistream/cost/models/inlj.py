"""The cost of INLJ.

N. Polyzotis, S. Skiadopoulos, P. Vassiliadis, A. Simitsis, N.-E. Frantzell: "Supporting Streaming Updates in an
Active Data Warehouse", ICDE 2007 (S3), section 4.1 (l. 243). The paper measures it and gives no model; the form is that
of its Eq. 2 and 3::

    c_loop = w (pages read for a tuple c_IO + c_S + c_O)        counts here (`Loop`), factors in a `Clock`
    mu     = w / c_loop

A tuple has its page read unless the page is in the buffer pool, which keeps the pages that were used last
(`semistream.cost.models.part_rates`).

Symbols
-------
==========  ==============================  ===========================================
paper       here                            unit
==========  ==============================  ===========================================
``M``       ``memory_bytes``                bytes
--          ``memory["buffer pool"]``       bytes
``w``       ``settings["w"]``               stream tuples per step
``c_loop``  ``loop_s``                      seconds
``mu``      ``tuples_per_s``                tuples per second
==========  ==============================  ===========================================

Deviations
----------
D1  The paper's index is a B+-tree on disk, and its pages share the pool. Here, as in the operator, the first keys of
    all pages are in memory, and a look-up reads pages of rows alone.
D2  Frequent keys lie anywhere in R, and so do keys without a row, unless `KeyDistribution.in_order` says that R is
    sorted by demand.
D3  A key that begins a page may also end the page before: both are asked for, and read in one go.
D4  A page that several tuples of a step ask for is asked for once. That is taken to be a hit of the pool, as it would
    be if they were looked up one after the other.
"""

from semistream.cost.join_case import JoinCase
from semistream.cost.model import LoopPlan, Settings, Times, known_settings, register_model, whole
from semistream.cost.models.lookups import PageLookups, lookup_memory, lookup_times
from semistream.cost.models.partitions import require_clustered
from semistream.operators.inlj import DEFAULT_W, inlj_split

__all__ = ["InljModel"]

_NAME = "inlj"


@register_model(_NAME)
class InljModel:
    """A model of INLJ, with the setting ``w``.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from semistream.core.semantics import JoinSpec
    >>> from semistream.cost.key_distribution import KeyDistribution
    >>> from semistream.cost.join_case import StreamShape
    >>> from semistream.cost.join_case import TableShape
    >>> table = TableShape(rows=1_000_000, pages=2000, num_bytes=120_000_000, layout="clustered")
    >>> spec = JoinSpec.resolve(pa.schema({"id": "int64"}), pa.schema({"id": "int64", "name": "int64"}), "id")
    >>> case = JoinCase(table, StreamShape(keys=KeyDistribution.zipf(1_000_000, 0.0)), spec)
    >>> plan = InljModel().plan(case, 60_000_000, {})
    >>> 0.5 < plan.loop.seeks / plan.loop.tuples < 0.7  # half of the pages are in the pool, or nearly so
    True
    """

    def plan(self, case: JoinCase, memory_bytes: int, settings: Settings) -> LoopPlan:
        """Return how many pages the pool has, and how often a tuple misses it."""
        known_settings(_NAME, settings, ("w",))
        require_clustered(_NAME, case)
        memory = lookup_memory(case, memory_bytes)
        split = inlj_split(memory, f"{_NAME} on {case.table.pages} pages")
        search_bytes = memory.search_bytes(split.pages_bytes)
        pool_bytes = split.pages_bytes - search_bytes
        lookups = PageLookups.of(case.table, case.stream.keys, pool_bytes)
        w = min(whole(settings, "w") or DEFAULT_W, max(1, int(memory.max_accesses / lookups.pages_asked)))
        return LoopPlan(
            settings={"w": w},
            memory={
                "stream buffer": split.stream_buffer_bytes,
                "index": memory.index_and_sizes_bytes,
                "buffer pool": pool_bytes,
                "disk buffer": search_bytes,
                "looking up": memory.building_bytes,
            },
            loop=lookups.loop(case, search_bytes, w),
            loops_per_cycle=1.0,
            window_tuples=w,
        )

    def times(self, case: JoinCase, plan: LoopPlan, loop_s: float, arrivals_per_s: float) -> Times:
        """Return the times of tuples that are looked up when they have arrived."""
        misses = max(plan.loop.seeks, 1e-9)
        return lookup_times(misses / plan.loop.tuples, loop_s / misses, plan.window_tuples, arrivals_per_s)

    def settings_to_try(self, case: JoinCase, memory_bytes: int) -> list[dict[str, float]]:
        """Return the operator's own w: a step is as long as its tuples, so that it makes no difference."""
        return [{"w": self.plan(case, memory_bytes, {}).settings["w"]}]
