"""Writes the kept states anew."""

import tempfile
from pathlib import Path

import semistream as ss
from tests.operators.kept_states import write

if __name__ == "__main__":
    for each in ss.algorithm_names():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), each)
