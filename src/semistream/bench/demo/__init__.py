"""The demonstration: generated products and sales, joined on Spark or in one process, and checked against DuckDB."""

from semistream.bench.demo.report import write_report
from semistream.bench.demo.run import DemoResult, run_demo
from semistream.bench.demo.workload import DemoSpec

__all__ = ["DemoResult", "DemoSpec", "run_demo", "write_report"]
