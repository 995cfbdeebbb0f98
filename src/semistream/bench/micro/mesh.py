"""MESHJOIN over the benchmark's table, with a budget that is a share of the table."""

from typing import Literal

from semistream.core.errors import BudgetTooSmall
from semistream.core.semantics import JoinSpec
from semistream.operators.meshjoin import Meshjoin, MeshjoinConfig
from semistream.storage import MasterTable
from semistream.workloads import STREAM_SCHEMA

__all__ = ["meshjoin_with_share"]


def meshjoin_with_share(table: MasterTable, share: float, io: Literal["buffered", "drop_behind"]) -> Meshjoin:
    """Return an operator with this share of the table's bytes; a tiny table gets the least that works."""
    spec = JoinSpec.resolve(STREAM_SCHEMA, table.schema, "key", "inner", None, None)
    budget_bytes = int(table.num_bytes * share)
    while True:
        try:
            return Meshjoin(table, spec, budget_bytes, MeshjoinConfig(io=io))
        except BudgetTooSmall:
            budget_bytes *= 2
