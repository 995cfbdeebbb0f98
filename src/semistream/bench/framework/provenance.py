"""The origin of a figure: commit, machine, versions, seed and date. No host name and no path."""

import hashlib
import os
import platform
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import semistream
from semistream.bench.framework.extras import import_extra
from semistream.cost.calibration.calibration_file import core_count, cpu_model

__all__ = ["Provenance", "collect_provenance"]

_LIBRARIES = ("numba", "numpy", "pyarrow", "xxhash", "duckdb", "pyspark")


@dataclass(frozen=True)
class Provenance:
    """Enough to judge a figure and to measure it again.

    ``commit`` is None for an installed package. ``load_average`` counts the processes that wanted a core in the minute
    before. ``changes`` is a digest of the package, if the checkout had changes beyond the commit.
    """

    date: str
    seed: int
    semistream: str
    commit: str | None
    commit_is_clean: bool | None
    cpu: str
    cores: int
    memory_bytes: int
    load_average: float
    system: str
    python: str
    libraries: dict[str, str]
    changes: str | None = None


def collect_provenance(seed: int) -> Provenance:
    """Return the provenance of measurements in this process, now."""
    commit, is_clean = _commit()
    psutil = import_extra("psutil", "bench", "the description of the machine")
    return Provenance(
        date=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seed=seed,
        semistream=semistream.__version__,
        commit=commit,
        commit_is_clean=is_clean,
        cpu=cpu_model(),
        cores=core_count(),
        memory_bytes=int(psutil.virtual_memory().total),
        load_average=round(os.getloadavg()[0], 2),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        libraries=_library_versions(),
        changes=_digest(Path(semistream.__file__).parent) if is_clean is False else None,
    )


def _library_versions() -> dict[str, str]:
    versions = {}
    for name in _LIBRARIES:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _commit() -> tuple[str | None, bool | None]:
    package = Path(semistream.__file__).parent
    try:
        commit = _git(package, "rev-parse", "HEAD")
        # A package installed into the checkout of another project does not belong to its commit.
        _git(package, "ls-files", "--error-unmatch", "__init__.py")
        return commit, _git(package, "status", "--porcelain", "--", ".") == ""
    except (OSError, subprocess.CalledProcessError):
        return None, None


def _digest(package: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:  # numba writes below it while it runs
            digest.update(f"{path.relative_to(package)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()
