"""The benchmark of dynamic tuning: a MESHJOIN that follows a bursty stream, beside the best that is fixed."""

from semistream.bench.tuning.run import run_tuning
from semistream.bench.tuning.spec import TuningSpec

__all__ = ["TuningSpec", "run_tuning"]
