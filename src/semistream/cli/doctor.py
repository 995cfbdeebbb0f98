"""``semistream doctor``: checks the installation."""

import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from semistream import __version__
from semistream.cli.arguments import example
from semistream.cli.local_spark import LEAST_JAVA, find_java
from semistream.core.sizes import format_bytes
from semistream.kernels.compile import kernel
from semistream.runtime.spark.pyspark_version import LEAST_PYSPARK, is_new_enough

__all__ = ["EXAMPLE", "doctor"]

EXAMPLE = example("semistream doctor --json")

_REQUIRED_LIBRARIES = ("numba", "numpy", "pyarrow", "xxhash")
_EXTRAS = {
    "typer": "cli",
    "rich": "cli",
    "matplotlib": "bench",
    "psutil": "bench",
    "duckdb": "clustered",
    "pyspark": "spark",
    "pandas": "spark",
    "protobuf": "spark",
}
_NEEDED_FOR = dict.fromkeys(("pandas", "protobuf"), "Spark Connect and completion='staggered'")


@dataclass(frozen=True)
class _Check:
    name: str
    found: str
    ok: bool
    required: bool
    remedy: str = ""


def doctor(
    data_dir: Annotated[Path, typer.Option(help="Folder where tables will be staged.")] = Path(),
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> None:
    """Check versions, PySpark and Java, the kernel cache and the disk; exit with 1 if something required is missing."""
    java = find_java()
    checks = [
        _Check("semistream", __version__, ok=True, required=True),
        _Check("python", platform.python_version(), sys.version_info >= (3, 10), True, "use Python 3.10 or newer"),
        *(_library(name, name, required=True) for name in _REQUIRED_LIBRARIES),
        *(_extra(name, extra) for name, extra in _EXTRAS.items()),
        _Check("java", java.found, java.ok, False, f"install Java {LEAST_JAVA} or newer: Spark needs it"),
        _tried("kernel cache", _kernel_cache, "set NUMBA_CACHE_DIR to a writable folder", True),
        _tried("free disk", lambda: _free_disk(data_dir), "make room: a table is a copy of its data", True),
        _tried("drop-behind reading", lambda: _fadvise(data_dir), "cold benchmarks need Linux and a local disk", False),
    ]
    healthy = all(check.ok for check in checks if check.required)
    if as_json:
        typer.echo(json.dumps({"healthy": healthy, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        for check in checks:
            mark = "ok     " if check.ok else "MISSING" if check.required else "absent "
            remedy = f"   -> {check.remedy}" if check.remedy and not check.ok else ""
            typer.echo(f"{mark} {check.name:20} {check.found}{remedy}")
    if not healthy:
        raise typer.Exit(1)


def _library(name: str, package: str, *, required: bool) -> _Check:
    try:
        return _Check(name, version(name), True, required)
    except PackageNotFoundError:
        return _Check(name, "not installed", False, required, f"pip install '{package}'")


def _extra(name: str, extra: str) -> _Check:
    check = _library(name, f"semistream[{extra}]", required=False)
    if name == "pyspark" and check.ok and not is_new_enough(check.found):
        remedy = f"semistream needs PySpark {LEAST_PYSPARK} or newer: pip install 'semistream[{extra}]'"
        return replace(check, ok=False, remedy=remedy)
    if name in _NEEDED_FOR and not check.ok:
        return replace(check, remedy=f"{check.remedy}, for {_NEEDED_FOR[name]}")
    return check


def _tried(name: str, find: Callable[[], tuple[str, bool]], remedy: str, required: bool) -> _Check:
    try:
        found, ok = find()
    except (OSError, RuntimeError) as error:
        return _Check(name, str(error).splitlines()[0], False, required, "see the message")
    return _Check(name, found, ok, required, remedy)


def _kernel_cache() -> tuple[str, bool]:
    @kernel
    def probe(number: int) -> int:
        return number + 1

    assert probe(1) == 2
    compiled: Any = probe
    folder = str(compiled.stats.cache_path)
    ok = os.access(folder, os.W_OK)
    return f"{folder} is {'writable' if ok else 'not writable'}", ok


def _free_disk(folder: Path) -> tuple[str, bool]:
    free_bytes = shutil.disk_usage(folder).free
    return format_bytes(free_bytes), free_bytes > 1 << 30


def _fadvise(folder: Path) -> tuple[str, bool]:
    if not hasattr(os, "posix_fadvise"):
        return "this system has no posix_fadvise", False
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(4096))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return "supported", True
