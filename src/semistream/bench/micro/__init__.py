"""The micro-benchmark: page scans, multi-map kernels, service rate of MESHJOIN, resident memory."""

from semistream.bench.micro.run import run_micro
from semistream.bench.micro.spec import MicroSpec

__all__ = ["MicroSpec", "run_micro"]
