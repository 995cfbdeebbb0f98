"""The suite runs on an operator that stands outside of the package, passes a right one, and fails broken ones."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from semistream.core.errors import SnapshotMismatch
from semistream.core.saved_state import SavedState
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.operators import register, registry
from semistream.operators.config import JoinConfig
from semistream.operators.inlj import inlj_split
from semistream.operators.join import Join, JoinInputs, Part
from semistream.operators.phases.lookup_phase import LookupPhase
from semistream.operators.window.stream_buffer import Arrivals, StreamBuffer
from semistream.storage import MasterTable, stage
from semistream.testing import OperatorConformance
from semistream.testing.conformance import LARGE_MASTER, MASTER


class Pace(Part):
    """How many tuples the next step looks up: 1, 2, 4 ... 64, and 1 again."""

    def __init__(self) -> None:
        self.tuples = 1

    def go_on(self) -> int:
        now, self.tuples = self.tuples, self.tuples * 2 % 127
        return now

    def state(self, *, exact: bool) -> SavedState:
        return SavedState({"tuples": self.tuples} if exact else {}, exact=exact)

    def set_state(self, saved: SavedState) -> None:
        self.tuples = saved.header["tuples"]


class PacedJoin(Join):
    """Looks up tuples in steps of changing size."""

    stream: StreamBuffer

    def __init__(self, inputs: JoinInputs, config: JoinConfig) -> None:
        self.disk = LookupPhase(inputs, config.io)
        split = inlj_split(self.disk.memory, str(inputs))
        self.disk.use(split.pages_bytes)
        self.stream = StreamBuffer(split.stream_buffer_bytes, self.disk.keys.stream_codes)
        self.pace = Pace()
        self.parts: dict[str, Part] = {"stream": self.stream, "disk": self.disk, "pace": self.pace}

    def step(self) -> Iterator[pa.RecordBatch]:
        arrivals = self.stream.peek(self.pace.go_on())
        assert arrivals is not None
        accesses, tuples = self.disk.locate(self.codes(arrivals))
        chunk = arrivals.first(tuples)
        for _, batch in self.disk.answer(chunk.batch, self.codes(chunk), accesses):
            yield batch
        self.stream.consume(tuples)

    def codes(self, arrivals: Arrivals) -> KeyCodes:
        return KeyCodes(arrivals.code, arrivals.valid)


@contextmanager
def registered(join: type[PacedJoin]) -> Iterator[None]:
    """Make an algorithm known for a while; outside of tests it stays known."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
        register("pacedjoin", JoinConfig, ("clustered",))(join)
        yield


@pytest.fixture(scope="class")
def paced_join() -> Iterator[None]:
    with registered(PacedJoin):
        yield


@pytest.mark.usefixtures("paced_join")
class TestPacedJoin(OperatorConformance):
    algorithm = "pacedjoin"


class LosesTuples(PacedJoin):
    def step(self) -> Iterator[pa.RecordBatch]:
        yield from super().step()
        self.stream.consume(min(1, self.stream.pending))


class MatchesNulls(PacedJoin):
    def codes(self, arrivals: Arrivals) -> KeyCodes:
        return KeyCodes(np.where(arrivals.code < 0, 0, arrivals.code), None)


class ForgetsTuples(PacedJoin):
    def __init__(self, inputs: JoinInputs, config: JoinConfig) -> None:
        super().__init__(inputs, config)
        del self.parts["stream"]


class ForgetsItsPace(PacedJoin):
    def __init__(self, inputs: JoinInputs, config: JoinConfig) -> None:
        super().__init__(inputs, config)
        del self.parts["pace"]


class Hoard(Part):
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def components(self) -> dict[str, int]:
        return {"hoard": self.nbytes}


class BreaksItsBudget(PacedJoin):
    def __init__(self, inputs: JoinInputs, config: JoinConfig) -> None:
        super().__init__(inputs, config)
        self.parts["hoard"] = Hoard(inputs.budget_bytes)


class TakesAnyBudget(PacedJoin):
    def __init__(self, inputs: JoinInputs, config: JoinConfig) -> None:
        super().__init__(replace(inputs, budget_bytes=1 << 20), config)


def small(path: Path) -> MasterTable:
    return stage(MASTER, path / "small", key="id", layout="clustered", page_bytes=1024)


def large(path: Path) -> MasterTable:
    return stage(LARGE_MASTER, path / "large", key="id", layout="clustered", page_bytes=1024)


Check = Callable[[OperatorConformance, Path], None]

BROKEN: dict[type[PacedJoin], Check] = {
    LosesTuples: lambda suite, path: suite.test_offering_goes_on_after_a_drain(small(path)),
    MatchesNulls: lambda suite, path: suite.test_null_keys_match_nothing_on_either_side("inner", pa.int64(), path),
    ForgetsTuples: lambda suite, path: suite.test_any_column_name_may_be_used(path, "number"),
    ForgetsItsPace: lambda suite, path: suite.test_the_taker_answers_the_same_tuples_in_the_same_steps(large(path)),
    BreaksItsBudget: lambda suite, path: suite.test_long_rows_among_short_ones_do_not_break_the_budget(
        path, "any", "semi"
    ),
    TakesAnyBudget: lambda suite, path: suite.test_a_budget_below_the_least_names_the_least_and_the_least_works(
        small(path)
    ),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_join_fails(broken: type[PacedJoin], tmp_path: Path) -> None:
    check, suite = BROKEN[broken], TestPacedJoin()
    with registered(PacedJoin):
        check(suite, tmp_path / "right")
    with registered(broken), pytest.raises((AssertionError, pytest.fail.Exception, SnapshotMismatch)):
        check(suite, tmp_path / "broken")
