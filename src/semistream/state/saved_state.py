"""The one form in which joins keep state: a small JSON header and named arrays.

::

    part.state(exact=False)   what must not be lost: pending tuples, position in R     ─► snapshot()
    part.state(exact=True)    and what decides which step answers a tuple: cache,      ─► staggered completion
                              policy, layout of the window, random numbers to come

A durable array holds rows, and losing it loses them. A soft one holds what was learned, and losing it costs time. An
exact state also keeps arrays as they lie, so that whoever takes it over answers the same tuples in the same steps.

The form names no class, module or attribute: state outlives a rename, a release and an upgrade of numpy. Values are
plain JSON, arrays are numbers, Arrow tables are IPC streams in arrays of bytes. Nothing is unpickled.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from semistream.core.errors import SnapshotMismatch

__all__ = ["FORMAT", "Array", "SavedState", "pack_state", "unpack_state"]

FORMAT = 2
"""The number of the form; another one is refused."""

Array = npt.NDArray[Any]

_MAGIC = b"SEMISNAP"
_KINDS = "biuf"  # numbers only: an array of objects would have to be unpickled


class SavedState:
    """What one part of a join keeps, and the states of the parts inside it.

    Attributes
    ----------
    header
        Values that JSON holds.
    arrays
        By name. When a state is read, an array is loaded where it is asked for.
    exact
        Whether it holds more than what must not be lost.

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
        """Keep an array; a view is not copied, and has to be used before the next step."""
        assert array.dtype.kind in _KINDS, f"{name} has type {array.dtype}"
        assert isinstance(self.arrays, dict)
        assert name not in self.arrays, f"{name} is kept twice"
        self.arrays[name] = array

    def put_table(self, name: str, table: pa.Table) -> None:
        """Keep the rows of a table, in the batches that it has."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        self.put(name, np.frombuffer(sink.getvalue(), dtype=np.uint8))

    def put_part(self, name: str, part: "SavedState") -> None:
        """Keep the state of a part under its name."""
        self.header[name] = part.header
        for array_name, array in part.arrays.items():
            self.put(f"{name}/{array_name}", array)

    def array(self, name: str) -> Array:
        """Return an array that the caller may change and keep."""
        return self.arrays[name]

    def table(self, name: str) -> pa.Table:
        """Return what `put_table` was given."""
        table: pa.Table = pa.ipc.open_stream(pa.py_buffer(self.arrays[name])).read_all()
        return table

    def part(self, name: str) -> "SavedState":
        """Return the state of a part; its arrays are still loaded where they are asked for."""
        return SavedState(self.header[name], _Prefixed(self.arrays, f"{name}/"), exact=self.exact)


class _Prefixed(Mapping[str, Array]):
    """The arrays whose names begin alike, without that beginning."""

    def __init__(self, arrays: Mapping[str, Array], prefix: str) -> None:
        self._arrays = arrays
        self._prefix = prefix

    def __getitem__(self, name: str) -> Array:
        return self._arrays[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name[len(self._prefix) :] for name in self._arrays if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Packed(Mapping[str, Array]):
    """Arrays that lie one behind the other in bytes; each is copied when it is asked for."""

    def __init__(self, content: memoryview, places: dict[str, tuple[str, list[int], int]]) -> None:
        self._content = content
        self._places = places

    def __getitem__(self, name: str) -> Array:
        dtype, shape, at = self._places[name]
        count = int(np.prod(shape, dtype=np.int64))
        return np.frombuffer(self._content, np.dtype(dtype), count, at).reshape(shape).copy()

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def pack_state(state: SavedState) -> bytes:
    """Return a state as bytes, behind a checksum."""
    places: list[tuple[str, str, tuple[int, ...]]] = []
    arrays = []
    for name, array in state.arrays.items():
        places.append((name, array.dtype.str, array.shape))
        arrays.append(np.ascontiguousarray(array).tobytes())
    head = json.dumps({"format": FORMAT, "exact": state.exact, "header": state.header, "arrays": places}).encode()
    body = b"".join([len(head).to_bytes(8, "little"), head, *arrays])
    return b"".join([_MAGIC, xxhash.xxh3_64_digest(body), body])


def unpack_state(content: bytes) -> SavedState:
    """Return what `pack_state` was given.

    Raises
    ------
    SnapshotMismatch
        When these are not the whole bytes of a state, or of one in another form.
    """
    if content[:8] != _MAGIC or content[8:16] != xxhash.xxh3_64_digest(content[16:]):
        raise SnapshotMismatch(
            f"these {len(content)} bytes are not a whole semistream snapshot: pass what snapshot() returned"
        )
    size = int.from_bytes(content[16:24], "little")
    try:
        head = json.loads(content[24 : 24 + size])
        if head["format"] != FORMAT:
            raise SnapshotMismatch(
                f"the snapshot has format {head['format']}, this version reads {FORMAT}: "
                "drain with the version that wrote it"
            )
        places = {}
        at = 24 + size
        for name, dtype, shape in head["arrays"]:
            if np.dtype(dtype).kind not in _KINDS or any(length < 0 for length in shape):
                raise ValueError(f"array {name!r} has type {dtype} and shape {shape}")
            places[name] = (dtype, shape, at)
            at += np.dtype(dtype).itemsize * int(np.prod(shape, dtype=np.int64))
        if at != len(content):
            raise ValueError(f"its arrays end at byte {at} of {len(content)}")
    except SnapshotMismatch:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise SnapshotMismatch(f"the snapshot cannot be read ({error}): restore one that this library wrote") from None
    return SavedState(head["header"], _Packed(memoryview(content), places), exact=head["exact"])
