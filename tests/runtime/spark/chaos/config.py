"""What a run is like: drawn at random from a seed, and small enough to be written beside it."""

import json
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["COMPLETIONS", "RunConfig"]

COMPLETIONS = ("batch", "staggered", "punctuated")
_SCANS = ("ssbj", "cmeshjoin", "meshjoin")
_LOOKUPS = ("auto", "sweepjoin", "chybridjoin", "hybridjoin", "cinlj")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One join on Spark, with all that may be chosen about it; ``punctuated`` joins two streams, without a table."""

    seed: int
    completion: str
    how: str
    memory: int
    source: str  # "files", or "broker" that serves offsets again
    sink: str  # "files" of Spark, or "batches" that fails now and then
    files_per_trigger: int
    rows_per_file: int
    has_executors: bool  # processes of their own, which can be killed
    layout: str
    buckets: int
    page_bytes: int
    algorithm: str
    exchange: str
    has_own_pins: bool
    master_keys: int
    options: dict[str, int | str] = field(default_factory=dict)

    @classmethod
    def draw(cls, seed: int, *, completion: str, **fixed: Any) -> "RunConfig":
        """Return a configuration that depends on the seed alone."""
        choose = random.Random(f"{seed} {completion}")
        layout = choose.choice(["heap", "clustered"])
        # A step reads one small page, so that a pass over the table takes many micro-batches and tuples wait.
        waits = completion == "staggered"
        hows = ["inner", "left"] if completion == "punctuated" else ["inner", "left", "semi", "anti"]
        drawn: dict[str, Any] = {
            "layout": layout,
            "buckets": choose.choice([1, 2, 3]),
            "page_bytes": 1 << 10 if waits else choose.choice([2 << 10, 4 << 10, 16 << 10]),
            "algorithm": choose.choice(_SCANS if waits or layout == "heap" else _LOOKUPS),
            "exchange": choose.choice(["auto", "bucket"]),
            "how": choose.choice(hows),
            "memory": choose.choice([3 << 20, 8 << 20, 32 << 20]),
            "master_keys": 10_000 if waits else choose.choice([1_000, 10_000]),
            "rows_per_file": choose.choice([200, 1_000]),
            "files_per_trigger": choose.choice([1, 3]),
            "source": choose.choice(["files", "broker"]),
            "sink": choose.choice(["files", "batches", "batches"]),
            "has_own_pins": choose.random() < 0.3,
            "has_executors": choose.random() < 0.4,
            # A table that was just written is in the page cache, where SWEEPJOIN uses it, and so caches nothing.
            "options": {"b": 1} if waits else {"io": choose.choice(["buffered", "drop_behind"])},
        }
        if completion == "punctuated":
            drawn["options"] = {}  # it has no table
        return cls(seed=seed, completion=completion, **{**drawn, **fixed})

    @property
    def master(self) -> str:
        """Where Spark runs; a task may fail as often as it is killed."""
        return "local-cluster[2,1,1024]" if self.has_executors else "local[2,100]"

    def write(self, path: Path) -> None:
        """Write the configuration for the process that runs it."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, path: Path) -> "RunConfig":
        """Read what `write` wrote."""
        return cls(**json.loads(path.read_text()))
