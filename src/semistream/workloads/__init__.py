"""Generators and readers of the data and streams of the papers' experiments; seeded, and in bounded memory."""

from semistream.workloads.datasets.nycflights13 import nycflights13
from semistream.workloads.datasets.online_retail import online_retail
from semistream.workloads.datasets.ship_weather import ship_weather
from semistream.workloads.datasets.tpch import tpch
from semistream.workloads.draws.bursts import Bursts
from semistream.workloads.generated.auctions import AUCTION_SCHEMA, BID_SCHEMA, Auctions
from semistream.workloads.generated.master_table import MASTER_SCHEMA, master_table
from semistream.workloads.generated.news import ACCESS_SCHEMA, NEWS_SCHEMA, News
from semistream.workloads.generated.papers import locality, repeated, skewed_master, synthetic
from semistream.workloads.generated.sales import SALES_SCHEMA, Sales
from semistream.workloads.generated.streams import STREAM_SCHEMA, locality_stream, polluted_stream, stream
from semistream.workloads.generated.weather import weather
from semistream.workloads.workload import Workload

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
    "locality",
    "locality_stream",
    "master_table",
    "nycflights13",
    "online_retail",
    "polluted_stream",
    "repeated",
    "ship_weather",
    "skewed_master",
    "stream",
    "synthetic",
    "tpch",
    "weather",
]
