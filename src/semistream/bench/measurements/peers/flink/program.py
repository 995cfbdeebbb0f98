"""The Java program that runs Flink: its packages are downloaded and it is compiled when first needed."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from semistream.bench.framework.measurement import Context
from semistream.core.errors import MissingExtra

__all__ = ["MAVEN_PACKAGES", "PYPI_PACKAGE", "FlinkProgram", "FlinkRun", "flink_program"]

PYPI_PACKAGE = "apache-flink-libraries==2.0.2"
"""The jars of Flink."""

MAVEN_PACKAGES = ("org.apache.paimon:paimon-flink-2.0:2.0.0", "org.apache.flink:flink-shaded-hadoop-2-uber:2.8.3-10.0")
"""Paimon, and what it needs of Hadoop."""

_MAIN = "LookupJoin"
_MOST_RUN_S = 1800.0
# Pauses are shorter than with the default collector, on two cores. Flink's own start script opens the packages.
_JVM = (
    "-XX:+UseParallelGC",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
)


@dataclass
class FlinkRun:
    """The lines that the program wrote."""

    statement_s: list[float] = field(default_factory=list)
    told: list[tuple[int, float]] = field(default_factory=list)  # rows until now, and seconds since the statement began
    memory_bytes: int = 0  # the most that the process took
    failure: str | None = None  # in one line

    @staticmethod
    def from_lines(lines: Sequence[str]) -> "FlinkRun":
        found = FlinkRun()
        for line in lines:
            match line.split():
                case ["done", seconds]:
                    found.statement_s.append(float(seconds))
                case ["rows", rows, seconds]:
                    found.told.append((int(rows), float(seconds)))
                case ["memory", memory_bytes]:
                    found.memory_bytes = int(memory_bytes)
        found.told.sort()  # two threads write them
        return found

    @property
    def rows(self) -> int:
        return self.told[-1][0] if self.told else 0

    def batch_s(self, batches: int) -> list[float]:
        """Return the time for each of ``batches`` equal parts of the rows."""
        rows, seconds = np.array(self.told).T
        ends_s = np.interp(np.linspace(0, self.rows, batches + 1)[1:], rows, seconds)
        return [round(float(each), 4) for each in np.diff(ends_s, prepend=0.0)]


@dataclass(frozen=True)
class FlinkProgram:
    """Jars and classes in a folder; ``scratch`` is for look-up files."""

    folder: Path
    scratch: Path

    def run(
        self, statements: Sequence[str], *, cores: int, heap: str, mode: str, products: Path, sales: Path
    ) -> FlinkRun:
        classes = os.pathsep.join([str(self.folder / "classes"), str(self.folder / "jars" / "*")])
        command = ["java", f"-Xmx{heap}", f"-Djava.io.tmpdir={self.scratch}", *_JVM, "-cp", classes, _MAIN]
        command += [str(cores), mode, str(products), str(sales), *statements]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_MOST_RUN_S, check=False)
        except subprocess.TimeoutExpired:
            return FlinkRun(failure=f"not done in {_MOST_RUN_S:g} s")
        found = FlinkRun.from_lines(done.stdout.splitlines())
        if done.returncode:
            found.failure = _cause(done.stderr)
        return found


def _cause(errors: str) -> str:
    """Return the innermost cause in what Java wrote."""
    lines = [line for line in errors.splitlines() if line.startswith(("Caused by: ", "Exception "))]
    return lines[-1].removeprefix("Caused by: ")[:300] if lines else "it ended without a reason"


def flink_program(context: Context) -> FlinkProgram:
    """Return the program, made ready in the data folder."""

    @contextmanager
    def ready() -> Iterator[FlinkProgram]:
        folder = context.data_dir.resolve() / "flink"
        jars = folder / "jars"
        _require("java", "javac", "mvn")
        if not jars.exists():
            context.report("downloading Flink and Paimon")
            _download(folder, jars)
        with as_file(files(__package__) / f"{_MAIN}.java") as source:
            _call(["javac", "-cp", str(jars / "*"), "-d", str(folder / "classes"), str(source)])
        with TemporaryDirectory(prefix="scratch-", dir=folder, ignore_cleanup_errors=True) as scratch:
            yield FlinkProgram(folder, Path(scratch))

    program: FlinkProgram = context.resource("Flink", ready)
    return program


def _require(*tools: str) -> None:
    for tool in tools:
        if shutil.which(tool) is None:
            package = "Maven" if tool == "mvn" else "a JDK of version 17 or newer"
            raise MissingExtra(f"the peer Flink needs {tool!r}, which is not on the PATH: install {package}")


def _download(folder: Path, jars: Path) -> None:
    unfinished = folder / "unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    with TemporaryDirectory(dir=folder) as downloads:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        _call([*pip, "--dest", downloads, PYPI_PACKAGE])
        for archive in Path(downloads).glob("*.tar.gz"):
            _extract_jars(archive, unfinished)
    for package in MAVEN_PACKAGES:
        _call(["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={package}", f"-DoutputDirectory={unfinished}"])
    unfinished.rename(jars)


def _extract_jars(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as content:
        for member in content:
            path = Path(member.name)
            jar = content.extractfile(member) if path.suffix == ".jar" and path.parent.name == "lib" else None
            if jar is not None:
                with (folder / path.name).open("wb") as file:
                    shutil.copyfileobj(jar, file)


def _call(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        told = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        first = next((line for line in told if "error" in line.lower()), told[0] if told else "no reason given")
        raise MissingExtra(f"the peer Flink is not ready, {' '.join(command[:4])} failed: {first[:300]}")
