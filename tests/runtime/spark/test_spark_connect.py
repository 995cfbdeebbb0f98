"""Staging and joins work through Spark Connect."""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest

import semistream as ss
from tests.runtime.spark.cases import by_rows, litter
from tests.runtime.spark.join.joins import orders, staged, write_files
from tests.runtime.spark.sessions import QUICK_JVM


@pytest.mark.slow
def test_staging_and_joins_through_connect(tmp_path: Path) -> None:
    for layout in ("heap", "clustered"):
        staged(tmp_path, layout)
    write_files(orders(300), tmp_path / "orders", files=4)
    output = _run(Path(__file__).with_name("connect_program.py"), tmp_path)
    rows = [(i, None if i % 9 == 0 else f"key {i % 40}") for i in range(300)]
    table = ss.open_table(tmp_path / "text")
    assert table.version == 2
    assert by_rows(table) == Counter(rows * 2)
    assert litter(tmp_path / "text") == set()  # the first attempts left files
    assert "refused: column 'id' is declared without NULLs" in output
    counts = [sum(file.rows for file in table.pages.files if file.bucket == bucket) // 2 for bucket in range(3)]
    assert f"buckets: {list(enumerate(counts))}" in output
    wide = ss.open_table(tmp_path / "wide")
    assert by_rows(wide) == Counter((Decimal(i).quantize(Decimal("0.001")), k) for i, k in rows)
    assert "joined in 2 batches" in output  # the program compares the joins itself


def _run(program: Path, folder: Path) -> str:
    root = Path(__file__).parents[3]
    paths = [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
    process = subprocess.Popen(
        [sys.executable, str(program), str(folder)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_TESTING": "1",  # the server takes any free port
            "JDK_JAVA_OPTIONS": QUICK_JVM,
        },
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=folder,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=300)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the server, should it still be there
    assert process.returncode == 0, output[-6000:]
    return output
