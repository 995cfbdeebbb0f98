"""The benchmark of joins of two punctuated streams: S4's experiments, and the choice that S4 leaves open."""

from semistream.bench.punctuated.run import run_punctuated
from semistream.bench.punctuated.spec import PunctuatedSpec

__all__ = ["PunctuatedSpec", "run_punctuated"]
