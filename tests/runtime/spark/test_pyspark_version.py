"""PySpark that is missing or too old is one clear line; without Spark."""

import subprocess
import sys
from pathlib import Path

import pytest

from semistream.runtime.spark.pyspark_version import LEAST_PYSPARK, is_new_enough


def printed_by(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return done.stdout.strip()


CALLS = {
    "ss.join": "semistream.join",
    "ss.enrich": "semistream.enrich",
    "ss.metrics": "semistream.metrics",
    "ss.register_sources(None)": "semistream.register_sources",
    "ss.stage(DataFrame(), '/nowhere', key='k')": "semistream.stage of a DataFrame",
}


def messages_of(setting: str) -> dict[str, str]:
    """Return the error that each call ends with in a process where ``setting`` was run before the import."""
    printed = printed_by(
        f"import os, sys; {setting}\n"
        "import semistream as ss\n"
        "class DataFrame: __module__ = 'pyspark.sql'\n"
        f"for call in {list(CALLS)!r}:\n"
        "    if os.fork() == 0:  # no call finds what another has loaded\n"
        "        try: exec(call)\n"
        "        except ImportError as error: print(call, f'{type(error).__name__} {error}', sep='|', flush=True)\n"
        "        os._exit(0)\n"
        "    os.wait()\n"
    )
    return dict(line.split("|") for line in printed.splitlines())


def test_names_for_spark_are_there_without_loading_it() -> None:
    printed_by(
        "import sys, semistream as ss; assert 'join' in dir(ss) and 'pyspark' not in sys.modules; "
        "ss.JoinMetrics; ss.register_sources; assert 'pyspark' not in sys.modules; "
        "ss.join; assert 'pyspark' in sys.modules"
    )


def test_without_pyspark_the_names_say_what_to_install() -> None:
    assert messages_of("sys.modules['pyspark'] = None") == {
        call: f"MissingExtra {name} needs PySpark, which is missing: install semistream[spark]"
        for call, name in CALLS.items()
    }


def test_an_old_pyspark_is_named_with_its_version() -> None:
    # What is new in 4.2 is missing in an older one.
    old = "import pyspark; pyspark.__version__ = '4.1.1'; sys.modules['pyspark.sql.streaming.datasource'] = None"
    message = "MissingExtra semistream needs PySpark 4.2 or newer, this is 4.1.1: install semistream[spark]"
    assert messages_of(old) == dict.fromkeys(CALLS, message)


@pytest.mark.parametrize(
    ("version", "expected"),
    [("3.5.3", False), ("4.1.9", False), ("4.2.0", True), ("4.2.0.dev1", True), ("4.10.0", True), ("unknown", True)],
)
def test_versions_compare_as_numbers(version: str, expected: bool) -> None:
    assert is_new_enough(version) is expected


def test_the_extra_asks_for_the_same_version() -> None:
    pyproject = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'spark = ["pyspark[connect]>={LEAST_PYSPARK}", "pandas<3"]' in pyproject
