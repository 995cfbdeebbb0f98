"""The exact image of an operator: with its cache and everything else it goes by.

A snapshot keeps what must not be lost, and its taker goes on as it sees fit: with an empty cache a tuple may be
answered in another step. An image keeps what decides which step answers a tuple: window, cache, policy, rows on their
way into the cache, position of the scan, random numbers to come. Its taker answers the same tuples in the same steps.

::

    operator ── state: arrays, counts ──────────► image: a small head, and the arrays as they lie
        └────── environment: table, readers, ...  named by where it hangs, and taken from the new operator

The arrays are not copied: they are views of the operator's memory, to be used before its next step. An image fits the
release of the library that made it, the same join and the same budget; a snapshot is the form that lasts.
"""

import io
import pickle
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, is_dataclass
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from semistream.core.errors import OperatorMisuse, SnapshotMismatch
from semistream.core.metrics import Metrics
from semistream.core.semantics import JoinSpec
from semistream.operators.driver import StepOperator
from semistream.operators.phases.lookup_phase import LookupPhase
from semistream.operators.phases.partition_phase import ByPartition
from semistream.operators.phases.partitions import Partitions
from semistream.operators.phases.read_counts import ReadCounts
from semistream.operators.phases.scan_plan import ScanPlanner
from semistream.operators.phases.sweep_phase import SweepPhase
from semistream.operators.phases.sweep_results import SweepResults
from semistream.operators.window.delivery import Delivery
from semistream.operators.window.matching import EqualityMatching, OrderMatching, PairFilter
from semistream.storage import MasterTable, PageDirectory, PageReader, ReadAhead
from semistream.storage.reading.raw_pages import PageShape

__all__ = ["Image", "set_image", "take_image"]

# What a new operator for the same join has of its own. Pages that a look-up keeps belong here: whether a page is read
# again changes no step.
_ENVIRONMENT = (
    MasterTable,
    JoinSpec,
    Metrics,
    PageReader,
    PageDirectory,
    ReadAhead,
    ReadCounts,
    Delivery,
    PairFilter,
    EqualityMatching,
    OrderMatching,
    ByPartition,
    Partitions,
    LookupPhase,
    ScanPlanner,
    SweepPhase,
    SweepResults,
    PageShape,
    FunctionType,
    MethodType,
    BuiltinMethodType,
)
_OWN_MODULES = (
    "semistream.operators.",
    "semistream.state.",
    "semistream.kernels.",
    "semistream.storage.reading.raw_pages",
)
_FOREIGN = {
    ("numpy", "dtype"),
    ("numpy", "ndarray"),
    ("numpy._core.numeric", "_frombuffer"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy.random._pickle", "__generator_ctor"),
    ("numpy.random._pickle", "__bit_generator_ctor"),
    ("numpy.random._pcg64", "PCG64"),
    ("numpy.random.bit_generator", "SeedSequence"),
    ("numpy.random.bit_generator", "__pyx_unpickle_SeedSequence"),
    ("collections", "deque"),
    ("collections", "OrderedDict"),
    ("builtins", "set"),
}


@dataclass(frozen=True)
class Image:
    """What `take_image` found.

    Attributes
    ----------
    head
        Objects and small values.
    buffers
        The arrays, as views of the operator's memory.
    """

    head: bytes
    buffers: list[memoryview]


def take_image(op: StepOperator) -> Image:
    """Return the image of an operator between two steps.

    Raises
    ------
    OperatorMisuse
        When a part of its state lies in files: tuples that were shed, or results that wait for their turn.
    """
    op._require_ready("take_image")
    _require_no_files(op)
    names = {id(part): name for name, part in _environment(op)}
    buffers: list[memoryview] = []
    head = io.BytesIO()

    def keep(buffer: pickle.PickleBuffer) -> None:
        buffers.append(buffer.raw())

    pickler = pickle.Pickler(head, protocol=5, buffer_callback=keep)
    pickler.persistent_id = lambda part: names.get(id(part))  # type: ignore[method-assign]
    pickler.dump({name: value for name, value in vars(op).items() if id(value) not in names})
    return Image(head.getvalue(), buffers)


def set_image(op: StepOperator, head: bytes, buffers: Iterable[bytearray | memoryview]) -> None:
    """Make an operator that has done nothing yet go on where the image was taken.

    Parameters
    ----------
    buffers
        Those of the image, copied into memory that becomes the operator's own; read one at a time.

    Raises
    ------
    SnapshotMismatch
        When the image holds what this release does not know.
    """
    op._require_ready("set_image")
    if op.metrics.tuples_in or op.pending:
        raise OperatorMisuse("set_image() needs an operator that has done nothing yet: make a new one")
    parts = dict(_environment(op))
    try:
        vars(op).update(_Unpickler(io.BytesIO(head), parts, buffers).load())
    except (AttributeError, KeyError, ModuleNotFoundError, pickle.UnpicklingError) as error:
        op._failed = True
        raise SnapshotMismatch(
            f"the image of {op.name} cannot be taken over ({error}): go on with the release of semistream that made it"
        ) from None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, parts: dict[str, object], buffers: Iterable[bytearray | memoryview]) -> None:
        super().__init__(file, buffers=buffers)
        self._parts = parts

    def persistent_load(self, name: Any) -> object:
        return self._parts[name]

    def find_class(self, module: str, name: str) -> Any:
        if not module.startswith(_OWN_MODULES) and module != "pyarrow.lib" and (module, name) not in _FOREIGN:
            raise pickle.UnpicklingError(f"{module}.{name} is not part of an operator")
        return super().find_class(module, name)


def _require_no_files(op: StepOperator) -> None:
    identity = op._identity()
    for option, harmless in (("order", "any"), ("shedding", None)):
        if identity.get(option, harmless) != harmless:
            raise OperatorMisuse(
                f"an operator with {option}={identity[option]!r} keeps a part of its state in files: no image has them"
            )


def _environment(op: StepOperator) -> Iterator[tuple[str, object]]:
    """Yield every part that is not state, with its name: the shortest way to it through attributes."""
    seen: set[int] = set()
    ahead: deque[tuple[str, object]] = deque([("", op)])
    while ahead:
        name, part = ahead.popleft()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if part is op or isinstance(part, _ENVIRONMENT) or _is_config(name, part):
            yield name or "operator", part
        if part is op or not isinstance(part, _ENVIRONMENT):
            attributes = getattr(part, "__dict__", {}) if type(part).__module__.startswith(_OWN_MODULES) else {}
            ahead.extend((f"{name}.{attribute}", value) for attribute, value in attributes.items())


def _is_config(name: str, part: object) -> bool:
    return name == ".config" and is_dataclass(part)
