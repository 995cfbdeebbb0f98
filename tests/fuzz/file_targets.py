"""What the tools read: the calibration of a machine, and result files of benchmarks."""

import json
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from semistream.bench.framework.measurement import Point
from semistream.bench.framework.plot import plot_result
from semistream.bench.framework.provenance import collect_provenance
from semistream.bench.framework.result_file import Finished, Result, read_result
from semistream.bench.framework.spec import load_spec
from semistream.bench.framework.tables import origin, points_table, targets_table
from semistream.cost.calibration.calibration_file import (
    Calibration,
    calibration_path,
    clock_named,
    core_count,
    cpu_model,
    load_calibration,
    save_calibration,
)
from semistream.cost.clock import AlgorithmFactors, CostFactors
from semistream.cost.loop import Loop
from tests.fuzz.mutations import changed_bytes, changed_json

__all__ = ["FileTargets"]

_LOOP = Loop(cached_tuples=5, disk_tuples=20, master_rows=500, results=24, reads=1, seeks=1, pages=2, bytes_read=65_536)


class FileTargets:
    """Cases by target; the files lie in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with self._home():
            save_calibration(_some_calibration())
            self._calibrated = calibration_path().read_bytes()
        self._results = {name: _some_result(name).to_json().encode() for name in ("shedding", "operators")}
        self.by_name: dict[str, Callable[[Random], None]] = {
            "calibration": self._calibration,
            "result file": self._result,
        }

    def _home(self) -> Any:
        return patch.dict("os.environ", SEMISTREAM_HOME=str(self._folder))

    def _calibration(self, random: Random) -> None:
        with self._home():
            calibration_path().write_bytes(_changed(random, self._calibrated))
            factors = load_calibration()
            assert f"{factors.provenance['cpu']}, {factors.factors.measured_on}"
            for name in factors.factors.by_algorithm:
                clock_named("machine").loop_s(name, _LOOP)
            save_calibration(factors)

    def _result(self, random: Random) -> None:
        path = self._folder / "result.json"
        path.write_bytes(_changed(random, random.choice(list(self._results.values()))))
        result = read_result(path)
        result.to_json()
        for shown in ("7200 rpm disk", "this machine"):
            points_table(result, shown).as_markdown()
        targets_table(result).as_markdown()
        origin(result.provenance)
        if random.random() < 0.1:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of figures that no picture has room for
                plot_result(result, self._folder / "result.svg")


def _changed(random: Random, content: bytes) -> bytes:
    """Return a JSON file with changed values, or else changed bytes."""
    change = partial(changed_bytes, random, content)
    return json.dumps(changed_json(random, json.loads(content))).encode() if random.random() < 0.85 else change()


def _some_calibration() -> Calibration:
    provenance = {
        "cpu": cpu_model(),
        "cores": core_count(),
        "date": "2026-01-01",
        "table": {"path": "t", "rows": 1000, "bytes": 65_536},
    }
    factors = {name: AlgorithmFactors(loop_s=0.5, row_s=0.25) for name in ("meshjoin", "ssbj")}
    return Calibration(
        factors=CostFactors(factors), left_out={"inlj": "heap"}, fit_error={"ssbj": 0.1}, provenance=provenance
    )


def _some_result(name: str) -> Result:
    points = tuple(
        Point(series, x, {"7200 rpm disk": 10.0 * x, "this machine": 5.0}, {"budget_bytes": 5}, group)
        for series in ("HYBRIDJOIN, keep", "MESHJOIN")
        for group in ("1,000 rows", "2,000 rows")
        for x in (1.0, 2.0)
    )
    spec = load_spec(name).as_run("full")
    finished = (Finished("keep", "k", 0.5, points), Finished("drop", "l", 0.25, points[:2]))
    return Result(name, "full", spec, collect_provenance(9), finished, ("considering",))
