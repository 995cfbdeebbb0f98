"""A campaign: start a query, kill something, start it again, and compare in the end."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pyarrow.dataset as ds
import pyspark

import semistream as ss
from tests.runtime.spark.chaos.config import RunConfig
from tests.runtime.spark.chaos.data import Feed, expected_rows, master_rows

__all__ = ["Campaign", "Verdict", "written_rows"]

_ROOT = Path(__file__).parents[4]
_MOST_RUN_S = 240.0


@dataclass
class Verdict:
    """What came of a campaign.

    Attributes
    ----------
    waited
        The most rows that a micro-batch left pending.
    """

    config: RunConfig
    kills: int = 0
    starts: int = 0
    rows: int = 0
    missing: int = 0
    extra: int = 0
    waited: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether the rows written are those of the batch join, each as often."""
        return self.missing == 0 and self.extra == 0

    def __str__(self) -> str:
        state = "exact" if self.is_exact else f"WRONG: {self.missing} missing, {self.extra} extra"
        return f"{state}: {self.rows:,} rows, {self.kills} kills, {self.starts} starts; {self.config}"


class Process:
    """The process of a query."""

    def __init__(self, folder: Path) -> None:
        spark_home = str(Path(pyspark.__file__).parent)  # executors of a local cluster are started from there
        environment = {
            **os.environ,
            "SPARK_HOME": spark_home,
            "PYTHONPATH": os.pathsep.join([str(_ROOT / "src"), str(_ROOT)]),
        }
        self._log = open(folder / "driver.log", "ab")  # noqa: SIM115  # closed by close()
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "tests.runtime.spark.chaos.driver", str(folder)],
            cwd=_ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            self.lines.append(line.rstrip())

    def wait_for(self, text: str, most_s: float = 120.0) -> bool:
        """Wait for a line of output; False when the process has ended without it."""
        deadline_s = time.monotonic() + most_s
        while time.monotonic() < deadline_s:
            if any(text in line for line in self.lines):
                return True
            if self.popen.poll() is not None:
                self._reader.join(5)
                return any(text in line for line in self.lines)
            time.sleep(0.05)
        raise TimeoutError(f"no {text!r} within {most_s} s")

    def children(self, part_of_command: str) -> list[psutil.Process]:
        """Return the processes below this one with a word in their command line."""
        found = []
        for child in psutil.Process(self.popen.pid).children(recursive=True):
            try:
                if any(part_of_command in word for word in child.cmdline()):
                    found.append(child)
            except psutil.Error:
                continue
        return found

    def kill(self) -> None:
        """Kill it with all that it has started."""
        try:
            below = psutil.Process(self.popen.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            below = []
        self.popen.send_signal(signal.SIGKILL)
        for child in below:
            try:
                child.kill()
            except psutil.Error:
                continue
        self.popen.wait(30)
        self.close()

    def close(self) -> None:
        """Wait for the end of a process, and close its files."""
        self.popen.wait(_MOST_RUN_S)
        self._reader.join(5)
        assert self.popen.stdout is not None
        self.popen.stdout.close()
        self._log.close()


def written_rows(folder: Path) -> "Counter[tuple[Any, ...]]":
    """Return the rows that a file sink has committed: the files that its log names, and no others."""
    log = folder / "_spark_metadata"
    batches: dict[int, list[str]] = {}
    compacted = -1
    for entry in sorted(log.iterdir(), key=lambda path: path.name):
        name = entry.name
        if name.startswith(".") or not name.split(".")[0].isdigit():
            continue
        number = int(name.split(".")[0])
        lines = entry.read_text().splitlines()[1:]
        paths = [json.loads(line)["path"].removeprefix("file://") for line in lines if line]
        if name.endswith(".compact"):
            compacted = max(compacted, number)
            batches[number] = paths
        else:
            batches.setdefault(number, paths)
    files = [path for number, paths in batches.items() if number >= compacted for path in paths]
    if not files:
        return Counter()
    table = ds.dataset(files, format="parquet").to_table()
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


class Campaign:
    """A query in a folder, which is killed and started again.

    Parameters
    ----------
    report
        Is told what happens.
    """

    def __init__(self, folder: Path, config: RunConfig, report: Callable[[str], None] = lambda message: None) -> None:
        self.folder = folder
        self.config = config
        folder.mkdir(parents=True, exist_ok=True)
        config.write(folder / "config.json")
        self.feed = Feed(folder / "stream", config)
        self.verdict = Verdict(config)
        self._random = random.Random(config.seed + 1)
        self._report = report
        ss.stage(
            master_rows(config),
            folder / "master",
            key="id",
            layout=config.layout,
            buckets=config.buckets,
            page_bytes=config.page_bytes,
        )

    def start(self) -> Process:
        """Start the query, from its checkpoint if there is one."""
        self.verdict.starts += 1
        process = Process(self.folder)
        if not process.wait_for("started"):
            process.close()
            raise AssertionError(f"the query did not start:\n{self.log_tail()}")
        return process

    def log_tail(self) -> str:
        """Return the last lines that the query's process wrote."""
        lines = (self.folder / "driver.log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-40:])

    def kill_drivers(self, kills: int, most_delay_s: float = 6.0) -> None:
        """Kill the driver at random moments; there is always something left to do."""
        while self.verdict.kills < kills:
            self.feed.add(self._random.randint(1, 4))
            process = self.start()
            time.sleep(self._random.uniform(0.2, most_delay_s))
            was_running = process.popen.poll() is None
            process.kill()
            self.verdict.kills += was_running
            self._report(f"kill {self.verdict.kills} of {kills}" + ("" if was_running else " (it had ended)"))

    def kill_children(self, part_of_command: str, kills: int) -> None:
        """Kill processes below the driver, while it goes on."""
        while self.verdict.kills < kills:
            self.feed.add(12)
            process = self.start()
            deadline_s = time.monotonic() + 60
            while time.monotonic() < deadline_s and process.popen.poll() is None and self.verdict.kills < kills:
                time.sleep(self._random.uniform(0.3, 2.0))
                found = process.children(part_of_command)
                if found:
                    victim = self._random.choice(found)
                    try:
                        victim.kill()
                    except psutil.Error:
                        continue
                    self.verdict.kills += 1
                    self._report(f"killed {part_of_command}, {self.verdict.kills} of {kills}")
                    time.sleep(2)
            self._finish(process)

    def finish(self) -> None:
        """Let the query run to its end."""
        self.feed.add()
        self._finish(self.start())

    def _finish(self, process: Process) -> None:
        done = process.wait_for('"done"', _MOST_RUN_S)
        process.close()
        for line in process.lines:
            if '"waited"' in line:
                self.verdict.waited = max(self.verdict.waited, json.loads(line)["waited"])
        assert done, f"the query failed:\n{self.log_tail()}"

    def check(self) -> Verdict:
        """Compare what was written with the batch join."""
        expected = expected_rows(self.folder / "stream", master_rows(self.config), self.config.how)
        written = written_rows(self.folder / "out")
        self.verdict.rows = written.total()
        self.verdict.missing = (expected - written).total()
        self.verdict.extra = (written - expected).total()
        self._report(str(self.verdict))
        return self.verdict
