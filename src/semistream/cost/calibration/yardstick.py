"""A small join that runs beside measured work, and tells how fast the machine is at the time.

Where cores, memory and disk are shared with others, the same work can take half as long again a minute later, and no
counter says so. Work and a yardstick that are measured in turns become slower together: their ratio stays.
"""

import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from semistream.core.semantics import JoinSpec
from semistream.cost.calibration.sampled_pages import SAMPLE_BYTES, staged_sample
from semistream.cost.calibration.trial_join import TrialJoin, TrialStream, keys_of, trial_operator, trial_schema
from semistream.storage import MasterTable

__all__ = ["Yardstick", "at_usual_speed"]

_MEMORY_SHARE = 0.02
_PAGES = 2
_WARM_UP_S = 0.2
_MEASURED_S = 0.03


class Yardstick(ExitStack):
    """MESHJOIN with little memory on a table: it reads, decodes, compares and interprets Python, as all operators do.

    It has a sample of the table to itself. On the table of others it would find pages in the page cache that the system
    fetched ahead for them, and be twice as fast for a moment. The sample lies in ``folder`` until `close`: on the disk
    that the table is on, by default the one for temporary files.
    """

    def __init__(self, table: MasterTable, folder: Path | None = None) -> None:
        super().__init__()
        rng = np.random.default_rng(0)
        schema = trial_schema(table)
        spec = JoinSpec.resolve(schema, table.schema, list(table.key))
        keys_of(table, rng)  # raises for a table without keys, by its own name and not the sample's
        self._steps = 1
        self.step_s: list[float] = []  # each time that it was measured; once at the beginning
        with ExitStack() as stack:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="semistream-yardstick-", dir=folder))
            path = Path(scratch) / "sample"
            sample = staged_sample(table, path, SAMPLE_BYTES, table.layout, table.page_bytes, rng)
            memory_bytes = int(_MEMORY_SHARE * sample.num_bytes)
            pages = min(_PAGES, sample.num_pages)
            op = stack.enter_context(trial_operator("meshjoin", sample, spec, memory_bytes, {"b": pages}))
            self._join = TrialJoin(op, TrialStream(schema, keys_of(sample, rng), 0.0, rng))
            self._warm_up()
            self.measure()
            self.push(stack.pop_all())

    def _warm_up(self) -> None:
        self._join.step()  # compiles
        began_s, steps = time.thread_time(), 0
        while (ran_s := time.thread_time() - began_s) < _WARM_UP_S:
            self._join.step()
            steps += 1
        self._steps = max(1, round(_MEASURED_S * steps / ran_s))

    def measure(self) -> float:
        """Return the seconds of a step now."""
        step_s = self._join.worked_s(self._steps) / self._steps
        self.step_s.append(step_s)
        return step_s

    @property
    def usual_step_s(self) -> float:
        """Seconds of a step on a machine as fast as this one was half of the time."""
        return statistics.median(self.step_s)


def at_usual_speed(seconds: float, yardstick_s: float | None, usual_step_s: float | None) -> float:
    """Return the seconds of work at the machine's usual speed, or as measured without a yardstick beside it."""
    if yardstick_s is None or usual_step_s is None:
        return seconds
    return seconds * usual_step_s / yardstick_s
