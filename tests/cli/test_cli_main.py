"""The entry point, in a process of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import semistream as ss


def run_python(code: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_missing_extra_is_one_line() -> None:
    done = run_python(
        "import sys; sys.modules['typer'] = None\nfrom semistream.cli.main import main\nmain()",
    )
    assert done.returncode == 1
    assert done.stderr == "semistream: the command line needs 'typer': pip install 'semistream[cli]'\n"


def test_the_module_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "semistream.cli.main", "stage", "absent.parquet", "t", "--key", "k"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("semistream: data='absent.parquet' does not exist")
    assert "Traceback" not in done.stderr


def test_the_command_line_loads_no_plotting_library_and_no_spark() -> None:
    done = run_python("import sys, semistream.cli.app; print({'matplotlib', 'pyspark', 'duckdb'} & set(sys.modules))")
    assert done.stdout == "set()\n", done.stderr


def test_an_interrupt_while_modules_are_imported_ends_it_without_a_traceback(tmp_path: Path) -> None:
    """Each part of the imports in turn: what they import is replaced by a module that waits."""
    for number, name in enumerate(["typer", "numpy", "pyarrow", "numba", "xxhash"]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / f"{name}.py").write_text("import time\nprint('waits', flush=True)\ntime.sleep(60)\n")
        command = subprocess.Popen(
            [sys.executable, "-m", "semistream.cli.main", "stage", "--help"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert command.stdout is not None
        assert command.stdout.readline() == "waits\n"
        command.send_signal(signal.SIGINT)
        assert command.communicate() == ("", "")
        assert command.returncode == 130, name


def test_sigterm_leaves_no_unfinished_output(tmp_path: Path) -> None:
    ss.stage(pa.table({"k": range(20_000)}), tmp_path / "table", key="k", layout="heap", page_bytes=500)
    pq.write_table(pa.table({"k": np.arange(500_000) % 20_000}), tmp_path / "stream.parquet")
    (tmp_path / "out").mkdir()
    arguments = ["--table", str(tmp_path / "table"), "--on", "k", "--out", str(tmp_path / "out" / "joined.parquet")]
    join = subprocess.Popen(
        [sys.executable, "-m", "semistream.cli.main", "join", tmp_path / "stream.parquet", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    while join.poll() is None and not list((tmp_path / "out").iterdir()):
        time.sleep(0.01)
    join.send_signal(signal.SIGTERM)
    _, problems = join.communicate()
    assert join.returncode == 128 + signal.SIGTERM, problems
    assert not list((tmp_path / "out").iterdir())
