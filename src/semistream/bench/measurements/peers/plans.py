"""The compared plans: ours, look-ups in the stores, passing rows through, and Spark's own."""

from typing import TYPE_CHECKING

from semistream.bench.measurements.peers.lookup_join import lookup_join
from semistream.bench.measurements.peers.stored import STORES, stored_table
from semistream.bench.measurements.peers.stores.row_store import RowStore
from semistream.bench.measurements.spark.plans import (
    IDENTITY,
    OURS,
    PLANS,
    PRODUCT,
    Master,
    Plan,
    our_join,
    pass_through,
)
from semistream.bench.measurements.spark.tables import files_below
from semistream.core.errors import BudgetTooSmall

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["LMDB", "LOOK_UPS", "SPARK_PLANS", "peer_plan"]

LMDB = STORES[0].name
LOOK_UPS = (OURS, IDENTITY, *(store.name for store in STORES))
SPARK_PLANS = tuple(plan.name for plan in PLANS if not plan.typical_only and not plan.name.startswith((OURS, IDENTITY)))


def peer_plan(name: str, rows_out: float) -> Plan:
    """Return a plan of a join with the table of products; it passes on ``rows_out`` rows of the stream for each."""
    if name == IDENTITY:
        return Plan(name, lambda stream, *_: pass_through(stream, PRODUCT, rows_out))
    if name == OURS:
        return Plan(name, _our_join, lambda master: master.our_files())
    of_stores = {store.name: _store_plan(store) for store in STORES}
    return of_stores[name] if name in of_stores else next(plan for plan in PLANS if plan.name == name)


def _our_join(stream: "DataFrame", master: Master, memory_share: float) -> "DataFrame":
    """Join with the share of memory, or with the least that the join takes."""
    try:
        return our_join(stream, master, memory_share)
    except BudgetTooSmall as error:
        if error.least_bytes is None:
            raise
        tasks = stream.sparkSession.sparkContext.defaultParallelism
        return our_join(stream, master, (error.least_bytes + 1) * tasks / master.ours.num_bytes)


def _store_plan(store: RowStore) -> Plan:
    return Plan(
        store.name,
        lambda stream, master, _: lookup_join(stream, stored_table(master, store)),
        lambda master: files_below(stored_table(master, store).folder),
    )
