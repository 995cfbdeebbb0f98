"""Times of the micro-batches of one plan, with the table in memory or with little page cache."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

from semistream.bench.framework.measurement import Context, Point
from semistream.bench.measurements.page_cache import (
    drop_from_page_cache,
    read_into_page_cache,
    share_in_page_cache,
)
from semistream.bench.measurements.peers.ballast import held_page_cache
from semistream.bench.measurements.peers.plans import SPARK_PLANS, peer_plan
from semistream.bench.measurements.spark.feed import sales_feed
from semistream.bench.measurements.spark.micro_batches import measure_plan
from semistream.bench.measurements.spark.session import SparkSettings
from semistream.bench.measurements.spark.warm_tables import warm_tables
from semistream.core.errors import InvalidArgument

__all__ = ["PeerTimes", "little_page_cache"]


@dataclass(frozen=True, kw_only=True)
class PeerTimes:
    """A fresh query over rows that no other query has read, except those of the other plans in its place."""

    group: str
    series: str
    plan: str
    rows: int
    batch_rows: int
    first_sale: int
    missing_share: float
    cached_share: float  # of our table's bytes, left to the page cache; 1 for all that there is
    most_ballast_bytes: int
    settings: SparkSettings

    @property
    def name(self) -> str:
        return f"{self.group}, batches of {self.batch_rows:,}: {self.series}"

    @property
    def weight(self) -> float:
        batch_s = 0.3 + 2e-6 * self.batch_rows
        batches = self.settings.measured_batches + self.settings.warm_up_batches
        if self.plan in SPARK_PLANS:
            batch_s += 2e-7 * self.rows
            batches = self.settings.slow_batches + 2
        return 5.0 + batches * batch_s

    def run(self, context: Context) -> list[Point]:
        tables = warm_tables(context, self.settings)
        master = tables.forms(self.rows, context.report)
        plan = peer_plan(self.plan, rows_out=1 - self.missing_share)
        files = plan.files(master)
        context.report(self.name)
        feed = sales_feed(
            tables.data_dir,
            self.settings,
            self.rows,
            self.batch_rows,
            tables.seed,
            self.first_sale,
            self.missing_share,
        )
        memory: AbstractContextManager[None] = nullcontext()
        if self.cached_share < 1:
            drop_from_page_cache(master.files())
            memory = little_page_cache(self.cached_share, master.ours.num_bytes, self.most_ballast_bytes)
        with memory:
            # Other plans may have evicted them; where memory is short, as much stays as it holds.
            read_into_page_cache(files)
            found = measure_plan(tables.spark, self.settings, plan, feed, master)
            cached_share = share_in_page_cache(files)
        return [found.as_point(self.series, self.batch_rows, self.group, share_in_page_cache=cached_share)]


@contextmanager
def little_page_cache(cached_share: float, table_bytes: int, most_ballast_bytes: int) -> Iterator[None]:
    """Leave so much of a table to the page cache; raise `InvalidArgument` where that cannot be had."""
    with ExitStack() as stack:
        try:
            stack.enter_context(held_page_cache(int(table_bytes * cached_share), most_ballast_bytes))
        except ChildProcessError as error:
            raise InvalidArgument(f"cached_share={cached_share} cannot be had, because {error}: give 1") from None
        yield
