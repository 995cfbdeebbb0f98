"""Generators of the data and streams that the papers' experiments use; seeded, and in bounded memory."""

from semistream.workloads.auctions import AUCTION_SCHEMA, BID_SCHEMA, Auctions
from semistream.workloads.bursts import Bursts
from semistream.workloads.cloud_reports import CLOUD_REPORT_SCHEMA, cloud_report_workload, cloud_reports
from semistream.workloads.locality import locality, locality_stream
from semistream.workloads.master_table import MASTER_SCHEMA, master_table
from semistream.workloads.news import ACCESS_SCHEMA, NEWS_SCHEMA, News
from semistream.workloads.nycflights13 import nycflights13
from semistream.workloads.online_retail import online_retail
from semistream.workloads.polluted import polluted_stream
from semistream.workloads.repeated import repeated
from semistream.workloads.sales import SALES_SCHEMA, Sales
from semistream.workloads.self_similarity import hurst_by_rescaled_range, hurst_by_variance, share_of_busiest
from semistream.workloads.ship_weather import ship_weather
from semistream.workloads.skewed_master import skewed_master
from semistream.workloads.stream import stream
from semistream.workloads.stream_batches import STREAM_SCHEMA
from semistream.workloads.tpch import tpch
from semistream.workloads.weather import weather
from semistream.workloads.workload import Workload, synthetic

__all__ = [
    "ACCESS_SCHEMA",
    "AUCTION_SCHEMA",
    "BID_SCHEMA",
    "CLOUD_REPORT_SCHEMA",
    "MASTER_SCHEMA",
    "NEWS_SCHEMA",
    "SALES_SCHEMA",
    "STREAM_SCHEMA",
    "Auctions",
    "Bursts",
    "News",
    "Sales",
    "Workload",
    "cloud_report_workload",
    "cloud_reports",
    "hurst_by_rescaled_range",
    "hurst_by_variance",
    "locality",
    "locality_stream",
    "master_table",
    "nycflights13",
    "online_retail",
    "polluted_stream",
    "repeated",
    "share_of_busiest",
    "ship_weather",
    "skewed_master",
    "stream",
    "synthetic",
    "tpch",
    "weather",
]
