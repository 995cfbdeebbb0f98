"""Writes the kept states of the named algorithms anew, or of all."""

import sys
import tempfile
from pathlib import Path

import semistream as ss
from tests.operators.kept_states import write

if __name__ == "__main__":
    for each in sys.argv[1:] or ss.algorithm_names():
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), each)
