"""What a run is like: drawn at random from a seed, and small enough to be written beside it."""

import json
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["RunConfig"]

_SCANS = ("ssbj", "cmeshjoin", "meshjoin")
_LOOKUPS = ("auto", "sweepjoin", "chybridjoin", "hybridjoin", "cinlj")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One join on Spark, with all that may be chosen about it."""

    seed: int
    layout: str
    buckets: int
    page_bytes: int
    algorithm: str
    exchange: str
    completion: str
    how: str
    memory: int
    master_rows: int
    rows_per_file: int
    files_per_trigger: int
    options: dict[str, int] = field(default_factory=dict)
    master: str = "local[2,4]"

    @classmethod
    def draw(cls, seed: int, *, completion: str, **fixed: Any) -> "RunConfig":
        """Return a configuration that depends on the seed alone."""
        choose = random.Random(seed)
        layout = choose.choice(["heap", "clustered"])
        algorithm = choose.choice(_SCANS if layout == "heap" else _LOOKUPS)
        if completion == "staggered":
            algorithm = choose.choice(_SCANS)
        # A step reads one small page, so that a pass over the table takes many micro-batches and tuples wait.
        waits = completion == "staggered"
        drawn: dict[str, Any] = {
            "layout": layout,
            "buckets": choose.choice([1, 2, 3]),
            "page_bytes": 1 << 10 if waits else choose.choice([2 << 10, 4 << 10, 16 << 10]),
            "options": {"b": 1} if waits else {},
            "algorithm": algorithm,
            "exchange": choose.choice(["auto", "bucket"]),
            "how": choose.choice(["inner", "inner", "left", "left", "semi", "anti"]),
            "memory": choose.choice([3 << 20, 8 << 20, 32 << 20]),
            "master_rows": 20_000 if waits else choose.choice([2_000, 20_000]),
            "rows_per_file": choose.choice([200, 1_000]),
            "files_per_trigger": choose.choice([1, 3]),
        }
        return cls(seed=seed, completion=completion, **{**drawn, **fixed})

    def write(self, path: Path) -> None:
        """Write the configuration for the process that runs it."""
        path.write_text(json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, path: Path) -> "RunConfig":
        """Read what `write` wrote."""
        return cls(**json.loads(path.read_text()))
