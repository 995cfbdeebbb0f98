"""The one form in which joins keep state: a small JSON header and named arrays.

::

    part.state(exact=False)   what must not be lost: pending tuples, position in R     ─► snapshot()
    part.state(exact=True)    and what decides which step answers a tuple: cache,      ─► staggered completion
                              policy, layout of the window, random numbers to come

A durable array holds rows: losing it loses them. A soft array holds what was learned: losing it costs time. An exact
state also keeps arrays as they lie, so that a join restored from it answers the same tuples in the same steps.

The form names no class, module or attribute: state outlives a rename, a release and an upgrade of numpy. Values are
plain JSON, arrays are numbers, Arrow tables are IPC streams in arrays of bytes. Nothing is unpickled.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from semistream.core.errors import SemistreamError, SnapshotMismatch

__all__ = [
    "FORMAT",
    "MOST",
    "Array",
    "LazyArrays",
    "SavedState",
    "empty_array",
    "pack_state",
    "refusing_broken",
    "refusing_broken_state",
    "table_array",
    "unpack_state",
    "validate_rows",
]

FORMAT = 2
"""The number of the form; another one is refused."""

Array = npt.NDArray[Any]

MOST = 1 << 53
"""No number in a header is larger: sums of several stay far from the end of 64 bits."""

_MAGIC = b"SEMISNAP"
# Numbers only: an array of objects would have to be unpickled.
_TYPES = frozenset(np.dtype(name).str for name in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"))
_REMEDY = "restore a snapshot of the same join, written by this library"
_BINARY_OF_TEXT = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}


class SavedState:
    """What one part of a join keeps, and the states of the parts inside it.

    Attributes
    ----------
    header
        Values that JSON holds.
    arrays
        By name. A mapping that loads an array when it is asked for will do.
    exact
        True for an exact state, False for what a snapshot keeps.

    Examples
    --------
    >>> window = SavedState({"entered": 7})
    >>> window.put("number", np.array([5, 6]))
    >>> join = SavedState({"position": 3})
    >>> join.put_part("window", window)
    >>> again = unpack_state(pack_state(join))
    >>> again.header["position"], again.part("window").header, again.part("window").array("number").tolist()
    (3, {'entered': 7}, [5, 6])
    """

    def __init__(
        self, header: dict[str, Any] | None = None, arrays: Mapping[str, Array] | None = None, *, exact: bool = False
    ) -> None:
        self.header: dict[str, Any] = {} if header is None else header
        self.arrays: Mapping[str, Array] = {} if arrays is None else arrays
        self.exact = exact

    def put(self, name: str, array: Array) -> None:
        """Keep an array. A view is not copied: use it before the next step."""
        assert array.dtype.str in _TYPES, f"{name} has type {array.dtype}"
        assert isinstance(self.arrays, dict)
        assert name not in self.arrays, f"{name} is kept twice"
        self.arrays[name] = array

    def put_table(self, name: str, table: pa.Table) -> None:
        """Keep the rows of a table, in the batches that it has."""
        self.put(name, table_array(table))

    @classmethod
    def of_parts(cls, header: dict[str, Any], parts: "Mapping[str, SavedState]") -> "SavedState":
        """Return a state with a header and parts, whose arrays are still made when they are asked for."""
        arrays = {
            f"{name}/{array_name}": partial(part.arrays.__getitem__, array_name)
            for name, part in parts.items()
            for array_name in part.arrays
        }
        return cls({**header, **{name: part.header for name, part in parts.items()}}, LazyArrays(arrays))

    def put_part(self, name: str, part: "SavedState") -> None:
        """Keep the state of a part under its name."""
        assert name not in self.header, f"{name} is kept twice"
        self.header[name] = part.header
        for array_name, array in part.arrays.items():
            self.put(f"{name}/{array_name}", array)

    def array(self, name: str, dtype: type[np.generic] | None = None, shape: tuple[int, ...] | None = None) -> Array:
        """Return an array that the caller may change and keep; with a type or shape, only one of that."""
        array = self._found(name)
        self.require(dtype is None or array.dtype == np.dtype(dtype), f"{array.dtype} as {name!r}")
        self.require(shape is None or array.shape == shape, f"shape {list(array.shape)} of {name!r}")
        return array if array.flags.writeable else array.copy()

    def whole_number(self, name: str, least: int = 0, most: int = MOST) -> int:
        """Return a whole number of the header, within these bounds."""
        number = self.header[name]
        self.require(type(number) is int and least <= number <= most, f"{name}={number!r}")
        return int(number)

    def whole_number_or_none(self, name: str, least: int = 0, most: int = MOST) -> int | None:
        """Return a whole number of the header within these bounds, or None where it has None."""
        return None if self.header[name] is None else self.whole_number(name, least, most)

    def whole_numbers(self, name: str, count: int) -> list[int]:
        """Return so many whole numbers of the header, none of them negative."""
        numbers = self.header[name]
        self.require(isinstance(numbers, list) and len(numbers) == count, f"{name}={numbers!r}")
        return [SavedState({name: number}).whole_number(name) for number in numbers]

    def number(self, name: str, most: float = float(MOST)) -> float:
        """Return a number of the header, from 0 to ``most``."""
        number = self.header[name]
        self.require(type(number) in (int, float) and 0 <= number <= most, f"{name}={number!r}")
        return float(number)

    def flag(self, name: str) -> bool:
        """Return a truth value of the header."""
        value = self.header[name]
        self.require(type(value) is bool, f"{name}={value!r}")
        return value is True

    def require(self, holds: bool | np.bool_, what: str) -> None:
        """Raise `SnapshotMismatch` for ``what`` the state has unless it ``holds``."""
        if not holds:
            raise SnapshotMismatch(f"the snapshot has {what[:200]}, which no such join writes: {_REMEDY}")

    def fill(self, name: str, out: Array) -> None:
        """Copy an array into memory that has its shape and type."""
        array = self._found(name)
        if array.shape != out.shape or array.dtype != out.dtype:
            raise SnapshotMismatch(
                f"the snapshot has {array.dtype}{list(array.shape)} as {name!r} where this join has "
                f"{out.dtype}{list(out.shape)}: {_REMEDY}, into the same memory"
            )
        out[...] = array

    def table(self, name: str, schema: pa.Schema | None = None) -> pa.Table:
        """Return what `put_table` was given; its first columns must be those of ``schema``.

        Every value is checked: kernels trust the offsets of text.
        """
        try:
            table: pa.Table = pa.ipc.open_stream(pa.py_buffer(self._found(name))).read_all()
            validate_rows(table)
        except (pa.ArrowException, OSError) as error:
            line = str(error).splitlines()[0]
            raise SnapshotMismatch(f"the snapshot has no table in {name!r} ({line}): {_REMEDY}") from None
        if schema is not None:
            ours = list(zip(schema.names, schema.types, strict=True))
            theirs = list(zip(table.schema.names, table.schema.types, strict=True))[: len(ours)]
            if ours != theirs:
                raise SnapshotMismatch(f"the snapshot has columns {theirs} in {name!r}, not {ours}: {_REMEDY}")
            fields = [*schema, *list(table.schema)[len(schema) :]]  # whatever it says of NULLs
            table = pa.Table.from_arrays(table.columns, schema=pa.schema(fields))
        return table

    def numbered_table(self, name: str, schema: pa.Schema) -> pa.Table:
        """Return a table of the columns of ``schema`` and an arrival number behind them."""
        table = self.table(name, schema)
        types = table.schema.types[len(schema) :]
        self.require(types == [pa.int64()], f"columns of types {types} in {name!r} where one of numbers belongs")
        numbers = table.column(len(schema))
        self.require(not numbers.null_count, f"rows without an arrival number in {name!r}")
        whole: Array = numbers.to_numpy()
        self.require(not whole.size or 0 <= whole.min() <= whole.max() < MOST, "arrival numbers out of range")
        return table

    def part(self, name: str) -> "SavedState":
        """Return the state of a part; its arrays are still loaded when they are asked for."""
        header = self.header.get(name)
        if not isinstance(header, dict):
            raise SnapshotMismatch(f"the snapshot has no part {name!r}: {_REMEDY}")
        return SavedState(header, _Prefixed(self.arrays, f"{name}/"), exact=self.exact)

    def _found(self, name: str) -> Array:
        try:
            array = self.arrays[name]
        except KeyError:
            raise SnapshotMismatch(f"the snapshot has no array {name!r}: {_REMEDY}") from None
        # numpy counts on truth values of 0 and 1: with others it writes beyond the end of arrays.
        return np.asarray(array.view(np.uint8) != 0) if array.dtype == np.bool_ else array


def refusing_broken_state(name: str) -> AbstractContextManager[None]:
    """Raise `SnapshotMismatch` in one line for whatever a state that was tampered with makes a part raise."""
    return refusing_broken(f"{name} cannot take the snapshot over", _REMEDY)


@contextmanager
def refusing_broken(failed: str, remedy: str) -> Iterator[None]:
    """Raise `SnapshotMismatch` for whatever is raised inside, in one line that begins with what ``failed``."""
    try:
        yield
    except SemistreamError:
        raise
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        MemoryError,
        RecursionError,
        TypeError,
        ValueError,
        pa.ArrowException,
    ) as error:
        line = (str(error).splitlines() or [""])[0]
        raise SnapshotMismatch(f"{failed} ({type(error).__name__}: {line}): {remedy}") from None


def validate_rows(rows: pa.RecordBatch | pa.Table) -> None:
    """Raise `pyarrow.ArrowInvalid` for values that lead out of their memory; text need not be UTF-8, as in tables."""
    for column in rows.columns:
        binary = _BINARY_OF_TEXT.get(column.type)
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            (chunk if binary is None else chunk.view(binary)).validate(full=True)


def table_array(table: pa.Table) -> Array:
    """Return the rows of a table as an array of bytes, in the batches that it has."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return np.frombuffer(sink.getvalue(), dtype=np.uint8)


class LazyArrays(Mapping[str, Array]):
    """Arrays that are made one at a time, each when it is asked for."""

    def __init__(self, makers: Mapping[str, Callable[[], Array]]) -> None:
        self._makers = makers

    def __getitem__(self, name: str) -> Array:
        return self._makers[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)


class _Prefixed(Mapping[str, Array]):
    """The arrays whose names begin alike, without that beginning."""

    def __init__(self, arrays: Mapping[str, Array], prefix: str) -> None:
        self._arrays = arrays
        self._prefix = prefix

    def __getitem__(self, name: str) -> Array:
        return self._arrays[self._prefix + name]

    def __contains__(self, name: object) -> bool:
        return f"{self._prefix}{name}" in self._arrays  # without loading it

    def __iter__(self) -> Iterator[str]:
        return (name[len(self._prefix) :] for name in self._arrays if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def pack_state(state: SavedState) -> bytes:
    """Return a state as bytes, behind a checksum."""
    places: list[tuple[str, str, tuple[int, ...]]] = []
    arrays: list[npt.NDArray[np.uint8]] = []
    for name, array in state.arrays.items():
        places.append((name, array.dtype.str, array.shape))
        arrays.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    head = json.dumps({"format": FORMAT, "exact": state.exact, "header": state.header, "arrays": places}).encode()
    checksum = xxhash.xxh3_64(len(head).to_bytes(8, "little"))
    checksum.update(head)
    for content in arrays:
        checksum.update(content.data)
    return b"".join([_MAGIC, checksum.digest(), len(head).to_bytes(8, "little"), head, *(a.data for a in arrays)])


def unpack_state(content: bytes) -> SavedState:
    """Return what `pack_state` was given; its arrays are views of ``content`` until they are asked for.

    Raises
    ------
    SnapshotMismatch
        When these are not the whole bytes of a state, or of one in another form.
    """
    view = memoryview(content)
    if view[:8] != _MAGIC or view[8:16] != xxhash.xxh3_64_digest(view[16:]):
        raise SnapshotMismatch(
            f"these {len(content)} bytes are not a whole semistream snapshot: pass what snapshot() returned"
        )
    size = int.from_bytes(view[16:24], "little")
    try:
        head = json.loads(content[24 : 24 + size])
        if head["format"] != FORMAT:
            raise SnapshotMismatch(
                f"the snapshot has format {head['format']!r}, this version reads {FORMAT}: "
                "drain with the version that wrote it"
            )
        arrays = _arrays_in(view, head["arrays"], 24 + size)
        header, exact = head["header"], head["exact"]
        if not isinstance(header, dict) or not isinstance(exact, bool):
            raise _unreadable(f"its header is a {type(header).__name__}")
    except SnapshotMismatch:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _unreadable(error) from None
    return SavedState(header, arrays, exact=exact)


def empty_array(name: str, dtype: str, shape: list[int], nbytes: int) -> Array:
    """Return an array for ``nbytes`` of content that were saved with this type and shape."""
    if not _is_array(dtype, shape) or np.dtype(dtype).itemsize * math.prod(shape) != nbytes:
        raise SnapshotMismatch(
            f"the snapshot has {nbytes} bytes of type {dtype!r} and shape {shape!r} for {name!r}: {_REMEDY}"
        )
    return np.empty(shape, np.dtype(dtype))


def _is_array(dtype: object, shape: list[int]) -> bool:
    return isinstance(dtype, str) and dtype in _TYPES and all(type(length) is int and length >= 0 for length in shape)


def _arrays_in(content: memoryview, places: list[tuple[str, str, list[int]]], at: int) -> dict[str, Array]:
    """Return views of the arrays that lie one behind the other from ``at`` to the end."""
    arrays: dict[str, Array] = {}
    for name, dtype, shape in places:
        if name in arrays or not _is_array(dtype, shape):
            raise _unreadable(f"array {name!r} has type {dtype!r} and shape {shape!r}")
        count = math.prod(shape)
        arrays[name] = np.frombuffer(content, np.dtype(dtype), count, at).reshape(shape)
        at += arrays[name].nbytes
    if at != len(content):
        raise _unreadable(f"its arrays end at byte {at} of {len(content)}")
    return arrays


def _unreadable(why: object) -> SnapshotMismatch:
    return SnapshotMismatch(f"the snapshot cannot be read ({why}): {_REMEDY}")
