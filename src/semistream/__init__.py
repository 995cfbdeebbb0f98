"""Exact joins of a stream with a disk-based table, and of two streams, inside a fixed memory budget.

>>> import semistream as ss
>>> import pyarrow as pa, tempfile
>>> customers = pa.table({"custkey": [1, 2, 3], "name": ["Ada", "Ben", "Cleo"]})
>>> table = ss.stage(customers, tempfile.mkdtemp(), key="custkey")
>>> orders = pa.record_batch({"custkey": [3, 1, 7], "amount": [10.0, 20.0, 30.0]})
>>> op = ss.operator("meshjoin", table, orders.schema, on="custkey", how="left", memory="1MB")
>>> sorted((row["custkey"], row["name"]) for batch in ss.run(op, [orders]) for row in batch.to_pylist())
[(1, 'Ada'), (3, 'Cleo'), (7, None)]
"""

from importlib import import_module
from typing import TYPE_CHECKING

from semistream._version import __version__
from semistream.core.engines import register_engine

register_engine("pyspark", "semistream.runtime.spark.staging.engine")

if TYPE_CHECKING:
    from semistream import errors
    from semistream.core.budget import MemoryReport
    from semistream.core.conditions import between, compare
    from semistream.core.contract import Operator
    from semistream.core.errors import SemistreamError
    from semistream.core.metrics import Metrics
    from semistream.core.punctuation import Punctuation, interval, punctuation
    from semistream.cost.advice.advisor import advise
    from semistream.operators import SheddingConfig, algorithm_names
    from semistream.runtime.local import Replay, SelfTuning, operator, run, run_streams, stream_operator
    from semistream.runtime.spark.join.join import enrich, join
    from semistream.runtime.spark.metrics.join_metrics import JoinMetrics, StreamJoinMetrics
    from semistream.runtime.spark.metrics.observed import metrics
    from semistream.runtime.spark.punctuated.join import punctuated_join
    from semistream.runtime.spark.punctuated.punctuated_rows import PunctuatedRows
    from semistream.runtime.spark.sources.register_sources import register_sources
    from semistream.storage import MasterTable, open_table, stage

__all__ = [
    "JoinMetrics",
    "MasterTable",
    "MemoryReport",
    "Metrics",
    "Operator",
    "PunctuatedRows",
    "Punctuation",
    "Replay",
    "SelfTuning",
    "SemistreamError",
    "SheddingConfig",
    "StreamJoinMetrics",
    "__version__",
    "advise",
    "algorithm_names",
    "between",
    "compare",
    "enrich",
    "errors",
    "interval",
    "join",
    "metrics",
    "open_table",
    "operator",
    "punctuated_join",
    "punctuation",
    "register_sources",
    "run",
    "run_streams",
    "stage",
    "stream_operator",
]

# Loaded at first use: the import of the package takes no time, so that the command line hears an interrupt.
_MODULES = {
    "MemoryReport": "semistream.core.budget",
    "between": "semistream.core.conditions",
    "compare": "semistream.core.conditions",
    "Operator": "semistream.core.contract",
    "SemistreamError": "semistream.core.errors",
    "Metrics": "semistream.core.metrics",
    "Punctuation": "semistream.core.punctuation",
    "interval": "semistream.core.punctuation",
    "punctuation": "semistream.core.punctuation",
    "advise": "semistream.cost.advice.advisor",
    "SheddingConfig": "semistream.operators",
    "algorithm_names": "semistream.operators",
    "Replay": "semistream.runtime.local",
    "SelfTuning": "semistream.runtime.local",
    "operator": "semistream.runtime.local",
    "run": "semistream.runtime.local",
    "run_streams": "semistream.runtime.local",
    "stream_operator": "semistream.runtime.local",
    "JoinMetrics": "semistream.runtime.spark.metrics.join_metrics",
    "StreamJoinMetrics": "semistream.runtime.spark.metrics.join_metrics",
    "register_sources": "semistream.runtime.spark.sources.register_sources",
    "MasterTable": "semistream.storage",
    "open_table": "semistream.storage",
    "stage": "semistream.storage",
}
# These import pyspark.
_ON_SPARK = {
    "enrich": "semistream.runtime.spark.join.join",
    "join": "semistream.runtime.spark.join.join",
    "metrics": "semistream.runtime.spark.metrics.observed",
    "PunctuatedRows": "semistream.runtime.spark.punctuated.punctuated_rows",
    "punctuated_join": "semistream.runtime.spark.punctuated.join",
}


def __getattr__(name: str) -> object:
    if name == "errors":
        return import_module("semistream.errors")
    if name in _ON_SPARK:
        from semistream.runtime.spark.pyspark_version import require_pyspark

        require_pyspark(f"semistream.{name}")
    elif name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_ON_SPARK.get(name) or _MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
