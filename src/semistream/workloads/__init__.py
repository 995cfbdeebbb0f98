"""Generators of the data and streams that the papers' experiments use; seeded, and in bounded memory."""

from semistream.workloads.auctions import AUCTION_SCHEMA, BID_SCHEMA, Auctions
from semistream.workloads.bursts import Bursts
from semistream.workloads.locality import locality_stream
from semistream.workloads.master_table import MASTER_SCHEMA, master_table
from semistream.workloads.news import ACCESS_SCHEMA, NEWS_SCHEMA, News
from semistream.workloads.polluted import polluted_stream
from semistream.workloads.repeated import repeated
from semistream.workloads.sales import SALES_SCHEMA, Sales
from semistream.workloads.skewed_master import skewed_master
from semistream.workloads.stream import stream
from semistream.workloads.stream_batches import STREAM_SCHEMA
from semistream.workloads.workload import Workload, synthetic

__all__ = [
    "ACCESS_SCHEMA",
    "AUCTION_SCHEMA",
    "BID_SCHEMA",
    "MASTER_SCHEMA",
    "NEWS_SCHEMA",
    "SALES_SCHEMA",
    "STREAM_SCHEMA",
    "Auctions",
    "Bursts",
    "News",
    "Sales",
    "Workload",
    "locality_stream",
    "master_table",
    "polluted_stream",
    "repeated",
    "skewed_master",
    "stream",
    "synthetic",
]
