"""The entry point, in a process of its own."""

import subprocess
import sys


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
