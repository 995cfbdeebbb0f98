"""Runs cases one after the other, and says on its output which one begins and how it ended."""

import faulthandler
import json
import resource
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from random import Random

from semistream.core.errors import SemistreamError
from tests.fuzz.findings import Finding
from tests.fuzz.targets import Targets

__all__ = ["run_case"]

_MOST_ADDRESSES = 8 << 30  # a giant allocation is an error, not the end of the machine


def run_case(targets: Targets, seed: int, case: int) -> tuple[str, str, str]:
    """Return the target of a case, why it ended as ``refused``, ``passed``, ``raw`` or a kind of `Finding`."""
    names = list(targets.by_name)
    target = names[case % len(names)]
    try:
        targets.by_name[target](Random(f"{seed}/{case}"))
    except SemistreamError as error:
        return target, "raw" if "\n" in str(error) else "refused", str(error)
    except Finding as error:
        return target, error.kind, str(error)
    except Exception:
        return target, "raw", traceback.format_exc()
    return target, "passed", ""


def _main(seed: int, first: int, last: int) -> None:
    faulthandler.enable()
    warnings.simplefilter("error", RuntimeWarning)
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_ADDRESSES, resource.RLIM_INFINITY))
    with tempfile.TemporaryDirectory() as folder:
        targets = Targets(Path(folder))
        print(json.dumps({"targets": list(targets.by_name)}), flush=True)
        for case in range(first, last):
            print(json.dumps({"begins": case}), flush=True)
            target, outcome, why = run_case(targets, seed, case)
            print(json.dumps({"case": case, "target": target, "outcome": outcome, "why": why}), flush=True)


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
