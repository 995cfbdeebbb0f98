"""Chunks of a bucket's state as files on the executor's disk, read instead of the state store's.

From the state store a chunk comes through a socket; most of what a micro-batch reads was written by the one before, on
the same executor. A chunk goes by its content, so a file whose hash is its name holds what the state store holds.
What is not there, or not whole, is read from the state store: nothing depends on these files.
"""

import os
from collections.abc import Collection
from contextlib import suppress

import xxhash

from semistream.runtime.spark.executor_folder import executor_folder

__all__ = ["ChunkFiles", "chunk_name"]


def chunk_name(content: bytes | memoryview) -> str:
    """Return the name that a chunk goes by."""
    return f"{len(content):x}-{xxhash.xxh3_128_hexdigest(content)}"


class ChunkFiles:
    """The files of one bucket; a disk that is full or gone makes them fewer."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @classmethod
    def of_bucket(cls, join_id: str, bucket: int) -> "ChunkFiles | None":
        """Return those of a bucket of a join on this executor; None where the executor has no folder."""
        folder = executor_folder(join_id)
        return None if folder is None else cls(os.path.join(folder, f"bucket-{bucket}"))

    def get(self, name: str) -> bytes | None:
        """Return the chunk, or None."""
        with suppress(OSError), open(os.path.join(self._folder, name), "rb") as file:
            content = file.read()
            if chunk_name(content) == name:
                return content
        return None

    def put(self, name: str, content: bytes | memoryview) -> None:
        """Keep a chunk, if it can be kept."""
        unfinished = os.path.join(self._folder, f"{name}.{os.getpid()}")
        with suppress(OSError):
            os.makedirs(self._folder, exist_ok=True)
            with open(unfinished, "wb") as file:
                file.write(content)
            os.replace(unfinished, os.path.join(self._folder, name))

    def keep_only(self, names: Collection[str]) -> None:
        """Remove all others, those of a time when the bucket was here before among them."""
        with suppress(OSError):
            for other in set(os.listdir(self._folder)).difference(names):
                os.remove(os.path.join(self._folder, other))
