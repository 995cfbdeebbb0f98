"""Packed rows by their key on disk, as a store keeps them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from semistream.kernels.arrays import Int64s, UInt8s

__all__ = ["FoundRows", "KeyedRows", "RowStore", "ask_distinct", "key_bytes"]


class KeyedRows(NamedTuple):
    """Packed rows and the key of each."""

    keys: Int64s
    rows: UInt8s


class FoundRows(NamedTuple):
    """The rows of keys that were asked for: ``rows[row[i]]`` has the key at ``place[i]`` of them."""

    place: Int64s
    rows: UInt8s
    row: Int64s


class RowStore(Protocol):
    """Rows with distinct keys, opened for look-ups once in a process."""

    name: str

    def write(self, folder: Path, chunks: Iterator[KeyedRows], num_rows: int, row_bytes: int) -> None:
        """Write a new store; rows come by ascending key, from 0 on."""

    def open(self, folder: Path, row_bytes: int) -> Callable[[Int64s], FoundRows]:
        """Return a look-up of keys, in any order and with repetitions."""


def key_bytes(keys: Int64s) -> list[bytes]:
    """Return keys as bytes in the order of the keys."""
    as_bytes: list[bytes] = keys.astype(">u8").view("V8").tolist()
    return as_bytes


def ask_distinct(keys: Int64s, get: Callable[[list[bytes]], list[Any]], row_bytes: int) -> FoundRows:
    """Look distinct keys up by ascending key: neighbours lie on the same page of a store."""
    distinct, asking = np.unique(keys, return_inverse=True)
    values = get(key_bytes(distinct))
    is_found: npt.NDArray[np.bool_] = np.fromiter((value is not None for value in values), np.bool_, len(values))
    rows = np.frombuffer(b"".join(filter(None, values)), dtype=np.uint8).reshape(-1, row_bytes)
    place = np.flatnonzero(is_found[asking])
    return FoundRows(place, rows, (np.cumsum(is_found) - 1)[asking[place]])
