"""The demonstration: a generated master table and sales stream, joined by every algorithm and checked."""

from semistream.bench.demo.report import WARM_NOTE, write_report
from semistream.bench.demo.run import DemoResult, DemoSpec, run_demo

__all__ = ["WARM_NOTE", "DemoResult", "DemoSpec", "run_demo", "write_report"]
