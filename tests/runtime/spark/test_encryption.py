"""With ``spark.io.encryption.enabled`` rows of the table stay off the disks of executors."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from semistream.runtime.spark.join.cache_folder import _MEMORY, _is_memory
from tests.runtime.spark.knowing_sink import LONG_S

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.slow  # each setting takes a session of its own; test_operator_pool.py covers the plan


def _searched(folder: Path, encrypts: str) -> Any:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "-m", "tests.runtime.spark.marked_rows", str(folder), encrypts]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LONG_S)
    assert done.returncode == 0, done.stderr[-2000:]
    answer = json.loads((folder / "answer.json").read_text())
    for completion in ("batch", "staggered"):
        assert answer[completion]["error"] is None
        assert answer[completion]["rows"] > 0
    return answer


def test_no_row_lies_on_the_disk_where_spark_encrypts(tmp_path: Path) -> None:
    answer = _searched(tmp_path, "true")
    assert (answer["batch"]["files"], answer["staggered"]["files"]) == ([], [])


def test_the_search_finds_the_files_where_spark_does_not_encrypt(tmp_path: Path) -> None:
    answer = _searched(tmp_path, "false")
    assert answer["batch"]["files"] or _is_memory(_MEMORY), "a cache in memory writes nothing"
    assert answer["staggered"]["files"]
