"""Functions reach executors by value, and say what an executor lacks."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from semistream.core import errors
from semistream.core.errors import ExecutorMismatch, SparkJobFailed, UnknownColumn
from semistream.kernels.keys.key_codes import bucket_ids
from semistream.runtime.spark.on_executor import clear_error, on_executor


def pickled(value: object) -> bytes:
    dumps: Callable[[object], bytes] = cloudpickle.dumps
    return dumps(value)


def count_rows(config: "list[str]", batches: Iterator[pa.RecordBatch]) -> int:
    return len(config) + sum(batch.num_rows for batch in batches)


def test_a_function_on_an_executor_gets_its_config_and_its_argument() -> None:
    call = cloudpickle.loads(pickled(on_executor(count_rows, ["a", "b"])))
    assert call(iter([pa.record_batch({"x": [1, 2, 3]})])) == 5


def test_an_executor_without_the_package_says_so(tmp_path: Path) -> None:
    config = UnknownColumn("an object of a class of this package")
    file = tmp_path / "call"
    file.write_bytes(pickled(on_executor(bucket_ids, config)))
    run = "from pyspark import cloudpickle; print(cloudpickle.loads(open(sys.argv[1], 'rb').read())(1))"
    for missing, message in (
        ("semistream", "semistream is not installed on the executor on "),
        ("numba", "semistream cannot be imported on the executor on "),
    ):
        code = f"import sys; sys.modules[{missing!r}] = None; {run}"
        done = subprocess.run([sys.executable, "-c", code, str(file)], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        error = clear_error(RuntimeError(f"An exception was thrown from the Python worker:\n{done.stderr}"), "staging")
        assert isinstance(error, ExecutorMismatch)
        assert str(error).startswith(message)
        assert "\n" not in str(error)


@pytest.mark.parametrize("name", errors.__all__)
def test_every_error_of_the_library_comes_back_as_itself(name: str) -> None:
    text = (
        f"Traceback (most recent call last):\n  File x\nsemistream.core.errors.{name}: k=1 is bad: fix it\n\n\tat org"
    )
    error = clear_error(RuntimeError(text), "staging")
    assert type(error) is getattr(errors, name)
    assert str(error) == "k=1 is bad: fix it"


def test_other_errors_keep_their_last_line() -> None:
    text = "Aborted.\nTraceback (most recent call last):\n  File x, line 1\n    boom()\nmy.Boom: it broke\n\n\tat org.x"
    for given, reason in ((text, "my.Boom: it broke"), ("[DIVIDE_BY_ZERO] no\n== SQL ==", "[DIVIDE_BY_ZERO] no")):
        error = clear_error(RuntimeError(given), "staging to /t")
        assert isinstance(error, SparkJobFailed)
        assert str(error) == f"staging to /t failed in Spark: {reason}"
