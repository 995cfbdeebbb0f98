"""A Spark session with master tables and a warm cache of our join, opened once for all measurements of a run."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import semistream as ss
from semistream.bench.framework.extras import import_extra
from semistream.bench.framework.measurement import Context
from semistream.bench.measurements.page_cache import read_into_page_cache
from semistream.bench.measurements.spark.feed import FileFeed, sales_feed
from semistream.bench.measurements.spark.micro_batches import measure_plan
from semistream.bench.measurements.spark.plans import OURS, Plan, plan_named
from semistream.bench.measurements.spark.session import SparkSettings, bench_session
from semistream.bench.measurements.spark.tables import MasterForms
from semistream.storage import stage
from semistream.workloads import master_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["WarmTables", "warm_tables", "worker_bytes"]

_FIRST_OF_WARM_UP = 10_000_000_000
_TINY_BATCHES, _TINY_BATCH_ROWS = 3, 10_000

_Report = Callable[[str], None]


class WarmTables:
    """The session and its tables.

    ``base_bytes`` is the memory of the Python workers after a join with a tiny table, before any other join.
    """

    def __init__(self, spark: "SparkSession", settings: SparkSettings, data_dir: Path, seed: int) -> None:
        self.spark = spark
        self._settings = settings
        self.data_dir = data_dir
        self.seed = seed
        self._forms: dict[int, MasterForms] = {}
        self._warm: set[int] = set()
        self.base_bytes: int | None = None

    def forms(self, rows: int, report: _Report) -> MasterForms:
        if rows not in self._forms:
            self._forms[rows] = MasterForms(self.spark, self._settings, rows, self.seed, self.data_dir, report)
        self._forms[rows].report = report
        return self._forms[rows]

    def warmed(self, rows: int, report: _Report) -> MasterForms:
        """Return the table, after our cache has seen sales with the same hot keys as the measured ones.

        Spark's plans keep nothing between batches that could be warm.
        """
        master = self.forms(rows, report)
        if self.base_bytes is None:
            report("memory of Python workers with a tiny table")
            self.base_bytes = self._tiny_join_bytes(master)
        if rows not in self._warm:
            batch_rows = self._settings.cache_batch_rows
            batches = -(-self._settings.cache_rows // batch_rows)
            report(f"{rows:,} rows: warming the cache with {batches} batches of {batch_rows:,}")
            self._run(plan_named(OURS), master, batch_rows, batches)
            self._warm.add(rows)
        return master

    def feed(self, rows: int, batch_rows: int, *, first: int) -> FileFeed:
        return sales_feed(self.data_dir, self._settings, rows, batch_rows, self.seed, first)

    def _tiny_join_bytes(self, master: MasterForms) -> int:
        path = self.data_dir / "tiny"
        shutil.rmtree(path, ignore_errors=True)
        tiny = stage(master_table(1000), path, key="key", page_bytes=self._settings.page_bytes)
        plan = Plan("tiny", lambda stream, *_: ss.join(stream, tiny, on="key", memory="8MB"))
        sizes: list[int] = []
        self._run(plan, master, _TINY_BATCH_ROWS, _TINY_BATCHES, after_batch=lambda: sizes.append(worker_bytes()))
        return max(sizes)

    def _run(self, plan: Plan, master: MasterForms, batch_rows: int, batches: int, **options: Any) -> None:
        read_into_page_cache(plan.files(master))
        feed = self.feed(master.rows, batch_rows, first=_FIRST_OF_WARM_UP)
        options |= {"warm_up_batches": 0, "measured_batches": batches}
        done = measure_plan(self.spark, self._settings, plan, feed, master, **options)
        assert done.failure is None, done.failure


def warm_tables(context: Context, settings: SparkSettings) -> WarmTables:

    @contextmanager
    def opened() -> Iterator[WarmTables]:
        data_dir = context.data_dir.resolve()
        data_dir.mkdir(parents=True, exist_ok=True)
        with bench_session(data_dir, cores=settings.cores, driver_memory=settings.driver_memory) as spark:
            yield WarmTables(spark, settings, data_dir, context.seed)

    opened_tables: WarmTables = context.resource("tables on Spark", opened)
    return opened_tables


def worker_bytes() -> int:
    """Return the resident bytes of all Python workers below this process, but for pages of files.

    Memory that several of them share counts once.
    """
    psutil = import_extra("psutil", "bench", "the memory of Python workers")
    total = 0
    for process in psutil.Process().children(recursive=True):
        try:
            if any("pyspark" in argument and "daemon" in argument for argument in process.cmdline()):
                total += _own_bytes(process.pid)
        except (psutil.Error, OSError):
            continue  # the process has just ended
    return total


def _own_bytes(process: int) -> int:
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    shares = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return sum(int(shares[name].split()[0]) * 1024 for name in ("Pss_Anon", "Pss_Shmem"))
