"""A campaign: start a query, kill something, start it again, and compare in the end."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pyspark

from tests.runtime.spark.chaos.config import RunConfig
from tests.runtime.spark.chaos.data import make_inputs
from tests.runtime.spark.chaos.sinks import rows_of_batches

__all__ = ["Campaign", "Verdict", "is_of_a_kill"]

_ROOT = Path(__file__).parents[4]
_HANGS_S = 300.0
_PUBLISH_SHARE = 0.5
_SPARED_SHARE = 0.8  # of the kills of workers that leave their daemons alive
_WAITS_FOR_WORKERS_S = 5.0
_LOST_TASK = re.compile(r"TaskSetManager: .*Lost task .*(exited unexpectedly|ExecutorLostFailure|EOFException)")
# What Spark says of a query whose processes were killed; any other failure is an error of the run.
_OF_KILLS = (
    "java.io.EOFException",
    "Python worker failed to connect back",
    "Python worker exited unexpectedly",
    "ExecutorLostFailure",
    "java.net.SocketException",
    "java.net.ConnectException",
    "java.nio.channels.ClosedChannelException",
    "java.io.IOException: Stream closed",
    "java.io.IOException: Broken pipe",
    "java.io.IOException: Connection reset by peer",
)
# Of faults of this library: its errors, broken invariants, and crashes that nobody ordered.
_OF_FAULTS = ("semistream.core.errors", "AssertionError", "Fatal Python error")
_FRAME_OF_OURS = re.compile(r'File "[^"]*/src/semistream/')
_LOST_CONNECTIONS = re.compile(r"\b(EOFError|BrokenPipeError|ConnectionResetError)\b")
# By a word of their command: executors; and processes that run the join, read the stream or keep its state.
_VICTIMS = {
    "executor": ("org.apache.spark.executor.CoarseGrainedExecutorBackend",),
    "worker": (
        "pyspark.worker",
        "pyspark.sql.streaming.python_streaming_source_runner",
        "pyspark.sql.streaming.transform_with_state_driver_worker",
    ),
}


@dataclass
class Verdict:
    """What came of a campaign.

    Attributes
    ----------
    interrupted
        Tasks that were lost to kills.
    restarts
        Failures of the query that a kill caused, after each of which it was started again.
    versions
        With how many versions of the table the rows were joined.
    waited
        The most rows that a micro-batch left pending.
    errors
        Failures that no kill and no sink explains.
    """

    config: RunConfig
    kills: "Counter[str]" = field(default_factory=Counter)
    starts: int = 0
    interrupted: int = 0
    sink_failures: int = 0
    restarts: int = 0
    published: int = 0
    expired: int = 0
    versions: int = 0
    batches: int = 0
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    waited: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def is_exact(self) -> bool:
        """Whether the rows written are those of the join, each as often, and nothing else went wrong."""
        return self.lost == 0 and self.doubled == 0 and not self.errors

    def record(self) -> dict[str, Any]:
        """Return the figures for a result file."""
        settings = ["seed", "completion", "how", "source", "sink", "has_executors", "layout", "algorithm"]
        figures = {name: value for name, value in asdict(self).items() if name not in ("config", "kills", "errors")}
        told = {name: getattr(self.config, name) for name in settings}
        if self.config.completion == "punctuated":
            del told["layout"], told["algorithm"]
        return {**told, "kills": dict(sorted(self.kills.items())), **figures, "errors": self.errors}


def is_of_a_kill(failure: str) -> bool:
    """Return whether the text of a failed query is that of a killed process, and of nothing else.

    An error in Python ends its worker's connection too, so that Spark tells of a lost one beside it.
    """
    raised_in_ours = _FRAME_OF_OURS.search(failure) and not _LOST_CONNECTIONS.search(failure)
    is_ours = raised_in_ours or any(words in failure for words in _OF_FAULTS)
    return not is_ours and any(words in failure for words in _OF_KILLS)


def _forked(found: list[psutil.Process]) -> list[psutil.Process]:
    """Return the processes that others of them forked: workers, and not the daemons behind them."""
    pids = {process.pid for process in found}
    forked = []
    for process in found:
        with suppress(psutil.Error):
            if process.ppid() in pids:
                forked.append(process)
    return forked


class Process:
    """The process of a query."""

    def __init__(self, folder: Path, start: int) -> None:
        spark_home = str(Path(pyspark.__file__).parent)  # executors of a local cluster are started from there
        environment = {
            **os.environ,
            "SPARK_HOME": spark_home,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)]),
        }
        self._log = open(folder / "driver.log", "ab")  # noqa: SIM115  # closed by close()
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.spark.chaos.driver", str(folder), str(start)],
            cwd=_ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self.told: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            if line.startswith("{"):
                self.told.append(json.loads(line))

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self.popen.poll() is None

    def has_told(self, name: str) -> bool:
        """Return whether it has told something."""
        return any(name in fields for fields in list(self.told))

    def wait_for(self, name: str) -> bool:
        """Wait until it tells something; False when it has ended without it."""
        deadline_s = time.monotonic() + _HANGS_S
        while not self.has_told(name) and self.runs:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the query hangs: no {name!r} within {_HANGS_S:g} s")
            time.sleep(0.05)
        if not self.runs:
            self._reader.join(5)
        return self.has_told(name)

    def below(self, victim: str) -> list[psutil.Process]:
        """Return the processes of a kind that it has started."""
        found = []
        for child in self._below():
            try:
                if any(word in _VICTIMS[victim] for word in child.cmdline()):
                    found.append(child)
            except psutil.Error:
                continue
        return found

    def _below(self) -> list[psutil.Process]:
        """Return all that it has started, by their session: workers outlive the daemon that forked them."""
        found = []
        for pid in psutil.pids():
            try:
                if pid != self.popen.pid and os.getsid(pid) == self.popen.pid:
                    found.append(psutil.Process(pid))
            except (ProcessLookupError, psutil.Error):
                continue
        return found

    def kill(self) -> bool:
        """Kill it with all that it has started; return whether it was still running."""
        was_running = self.runs
        below = self._below()
        self.popen.send_signal(signal.SIGKILL)
        for child in below:
            with suppress(psutil.Error):
                child.kill()
        self.close()
        return was_running

    def close(self) -> None:
        """Wait for the end of a process, and close its files."""
        self.popen.wait(30)
        self._reader.join(5)
        assert self.popen.stdout is not None
        self.popen.stdout.close()
        self._log.close()


class Campaign:
    """A query in a folder, which is killed and started again.

    Parameters
    ----------
    report
        Is told what happens.
    """

    def __init__(self, folder: Path, config: RunConfig, report: Callable[[str], None] = lambda message: None) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        config.write(folder / "config.json")
        self._config = config
        self._inputs = make_inputs(folder, config)
        self._verdict = Verdict(config)
        self._random = random.Random(f"kills {config.seed} {config.completion}")
        self._report = report
        self._fed = 0

    def run(self, kills: int) -> Verdict:
        """Kill so often, let the query finish, and compare."""
        victims = {"driver": 1, "worker": 6} | ({"executor": 3} if self._config.has_executors else {})
        process = self._start()
        try:
            while self._verdict.kills.total() < kills:
                [victim] = self._random.choices(list(victims), list(victims.values()))
                pause_s = self._random.uniform(0.1, 3.0 if victim == "driver" else 1.0)
                if self._random.random() < _PUBLISH_SHARE:
                    self._inputs.publish(self._commits)
                if self._random.random() < 0.5:
                    self._await_commit(process)
                time.sleep(pause_s)
                process = self._kill(process, victim)
            self._finish(process)
        except (TimeoutError, AssertionError) as error:
            self._verdict.errors.append(f"{error}\n{self.log_tail()}")
        finally:
            process.kill()
        self._count(process)
        return self._compare()

    def log_tail(self) -> str:
        """Return the last lines that the query's process wrote."""
        lines = (self.folder / "driver.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-40:])

    def _start(self) -> Process:
        self._feed()
        self._verdict.starts += 1
        process = Process(self.folder, self._verdict.starts)
        try:
            assert process.wait_for("started"), "the query did not start"
        except BaseException:
            process.kill()
            raise
        return process

    def _commits(self) -> int:
        """Return the last micro-batch that is complete; -1 before the first."""
        folder = self.folder / "checkpoint" / "commits"
        return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)

    def _await_commit(self, process: Process) -> None:
        before, deadline_s = self._commits(), time.monotonic() + _HANGS_S
        while process.runs and self._commits() == before:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the query hangs: no micro-batch after {before} within {_HANGS_S:g} s")
            self._feed()
            time.sleep(0.05)

    def _feed(self) -> None:
        """Let there be something to do."""
        while self._fed < (self._commits() + 4) * self._config.files_per_trigger:
            self._inputs.feed()
            self._fed += 1

    def _kill(self, process: Process, victim: str) -> Process:
        """Kill a process, or two at once; a driver goes with all that it started."""
        most = self._random.choice([1, 1, 1, 2])
        spares_daemons = victim == "worker" and self._random.random() < _SPARED_SHARE
        begun_s = time.monotonic()
        while True:
            self._feed()
            assert process.runs, "the process of the query has ended"
            if victim == "driver":
                if process.kill():
                    self._killed(victim)
                self._count(process)
                if self._random.random() < 0.5:
                    self._inputs.publish(self._commits)
                return self._start()
            found = process.below(victim)
            waited_s = time.monotonic() - begun_s
            if spares_daemons and waited_s < _WAITS_FOR_WORKERS_S:
                found = _forked(found)
            for chosen in self._random.sample(found, min(most, len(found))):
                with suppress(psutil.Error):
                    chosen.kill()
                    self._killed(victim)
                    most = 0
            if most == 0:
                return process
            if waited_s > _HANGS_S:
                raise TimeoutError(f"the query hangs: no {victim} within {_HANGS_S:g} s")
            time.sleep(0.05)

    def _killed(self, victim: str) -> None:
        self._verdict.kills[victim] += 1
        self._report(f"{victim} killed, {self._verdict.kills.total()} in all, micro-batch {self._commits() + 1}")

    def _finish(self, process: Process) -> None:
        (self.folder / "finish").touch()
        assert process.wait_for("done"), "the query did not finish"

    def _count(self, process: Process) -> None:
        """Add what a process told before it ended."""
        for fields in process.told:
            self._verdict.waited = max(self._verdict.waited, fields.get("waited", 0))
            failed = fields.get("failed")
            if failed == "sink":
                self._verdict.sink_failures += 1
            elif failed is not None and is_of_a_kill(failed):
                self._verdict.restarts += 1
            elif failed is not None:
                self._verdict.errors.append(failed)

    def _compare(self) -> Verdict:
        verdict = self._verdict
        verdict.published, verdict.expired = self._inputs.published, self._inputs.expired
        batches = rows_of_batches(self.folder / "out")
        verdict.batches = self._commits() + 1
        verdict.rows = sum(map(len, batches.values()))
        verdict.lost, verdict.doubled = self._inputs.compare(batches)
        verdict.versions = self._inputs.versions
        log = (self.folder / "driver.log").read_text(errors="replace").splitlines()
        verdict.interrupted = sum(_LOST_TASK.search(line) is not None for line in log)
        # A retry of the task may have healed them, and then the query never failed.
        verdict.errors += [line for line in log if any(words in line for words in _OF_FAULTS)]
        self._report(("exact: " if verdict.is_exact else "WRONG: ") + json.dumps(verdict.record()))
        return verdict
