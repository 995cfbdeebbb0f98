"""What keeps the values of one bucket from one micro-batch to the next: Spark's state store."""

from typing import Any, Protocol

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from semistream.core.errors import InvalidArgument

__all__ = ["ChunkStore", "SparkChunks", "require_rocksdb"]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class ChunkStore(Protocol):
    """A header, and chunks by name."""

    def header(self) -> bytes | None: ...
    def set_header(self, content: bytes) -> None: ...
    def chunk(self, name: str) -> bytes: ...
    def put_chunk(self, name: str, content: memoryview) -> None: ...
    def remove_chunk(self, name: str) -> None: ...


class SparkChunks:
    """The state of the bucket that is being worked on."""

    def __init__(self, handle: StatefulProcessorHandle) -> None:
        self._header = handle.getValueState("header", "content binary")
        self._chunks = handle.getMapState("chunks", "name string", "content binary")

    def header(self) -> bytes | None:
        value = self._header.get()
        return None if value is None else bytes(value[0])

    def set_header(self, content: bytes) -> None:
        self._header.update((content,))

    def chunk(self, name: str) -> bytes:
        value = self._chunks.getValue((name,))
        assert value is not None, f"chunk {name} is missing in the state store"
        return bytes(value[0])

    def put_chunk(self, name: str, content: memoryview) -> None:
        self._chunks.updateValue((name,), (bytes(content),))

    def remove_chunk(self, name: str) -> None:
        self._chunks.removeKey((name,))


def require_rocksdb(conf: Any, what: str) -> None:
    """Raise `InvalidArgument` when the session has another state store than the one with map state."""
    provider = conf.get(_PROVIDER, "")
    if "RocksDB" not in (provider or ""):
        raise InvalidArgument(
            f"{what} needs the state store RocksDB, the session has {provider!r}: "
            f"spark.conf.set({_PROVIDER!r}, {_ROCKSDB!r})"
        )
