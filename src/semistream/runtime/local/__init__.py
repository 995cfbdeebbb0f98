"""The runtime for one process: tests, benchmarks, small jobs."""

from semistream.runtime.local.make import operator
from semistream.runtime.local.replay import Replay, StepCost
from semistream.runtime.local.run import run
from semistream.runtime.local.self_tuning import SelfTuning
from semistream.runtime.local.two_streams import run_streams, stream_operator

__all__ = ["Replay", "SelfTuning", "StepCost", "operator", "run", "run_streams", "stream_operator"]
