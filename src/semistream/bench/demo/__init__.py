"""The demonstration: a generated master table and sales stream, joined by every algorithm and checked."""

from semistream.bench.demo.report import write_report
from semistream.bench.demo.run import DemoResult, DemoSpec, run_demo

__all__ = ["DemoResult", "DemoSpec", "run_demo", "write_report"]
