"""Staging works through Spark Connect."""

import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import semistream as ss
from tests.spark.cases import by_rows, litter


def test_stage_and_append_through_connect(tmp_path: Path) -> None:
    program = Path(__file__).with_name("connect_program.py")
    process = subprocess.Popen(
        [sys.executable, str(program), str(tmp_path)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=150)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the server, should it still be there
    assert process.returncode == 0, output[-3000:]
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
