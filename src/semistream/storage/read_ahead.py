"""Reads the next run of pages in the background while the current one is being used."""

import queue
import threading
import weakref
from concurrent.futures import Future
from types import TracebackType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from semistream.core.errors import InvalidArgument, OperatorMisuse
from semistream.storage.page_reader import PageReader

__all__ = ["ReadAhead"]


class _Request(NamedTuple):
    first: int
    count: int
    buffer: memoryview
    result: "Future[pa.Table]"


class ReadAhead:
    """Two equal buffers: the run in use, and the one that a background thread reads.

    A table returned by `read` uses a buffer's memory. It stays valid through the next `read`; the `prefetch`
    or `read` after that one overwrites it. Copy what has to live longer.

    Parameters
    ----------
    reader
        Read only through this object while it is open. It is not closed here.
    buffer_bytes
        The largest run to be read, such as ``reader.pages.max_run_bytes(run_pages)``.

    Attributes
    ----------
    pages_read, bytes_read
        What has been read, runs that were prefetched in vain included.
    """

    def __init__(self, reader: PageReader, buffer_bytes: int) -> None:
        if buffer_bytes < 1:
            raise InvalidArgument(f"buffer_bytes={buffer_bytes} must be at least 1")
        self._reader = reader
        self._buffer_bytes = buffer_bytes
        self._buffers = [_new_buffer(reader.header, buffer_bytes) for _ in range(2)]
        self._free = 0
        self._ahead: _Request | None = None
        self._requests: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._closed = False
        self.pages_read = 0
        self.bytes_read = 0

    @property
    def nbytes(self) -> int:
        """How many bytes both buffers take."""
        return sum(len(buffer) for buffer in self._buffers)

    def prefetch(self, first: int, count: int) -> None:
        """Begin to read a run in the background; one that was begun before and not used is forgotten."""
        request = self._request(first, count)
        if self._thread is None:
            self._start()
        self._ahead = request
        self._requests.put(request)

    def read(self, first: int, count: int) -> pa.Table:
        """Return a run decoded, one chunk per page: the prefetched one if it is the same, else read now."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or (ahead.first, ahead.count) != (first, count):
            if ahead is not None:
                ahead.result.exception()  # the thread is done with the buffer
            ahead = self._request(first, count)
            _fill(self._reader, ahead)
        table = ahead.result.result()
        self._free = 1 - self._free
        return table

    def _request(self, first: int, count: int) -> _Request:
        if self._closed:
            raise OperatorMisuse("this ReadAhead is closed: make a new one to read on")
        run_bytes = self._reader.run_bytes(first, count)
        if run_bytes > self._buffer_bytes:
            raise InvalidArgument(
                f"a run of {run_bytes} bytes exceeds buffer_bytes={self._buffer_bytes}: read fewer pages at a time"
            )
        self.pages_read += count
        self.bytes_read += run_bytes
        buffer = self._buffers[self._free][: len(self._reader.header) + run_bytes]
        return _Request(first, count, buffer, Future())

    def _start(self) -> None:
        # The thread knows the queue and the reader but not this object, so that it cannot keep it alive.
        self._thread = threading.Thread(
            target=_serve, args=(self._reader, self._requests), name="semistream-read-ahead", daemon=True
        )
        self._thread.start()
        weakref.finalize(self, self._requests.put, None)

    def close(self) -> None:
        """Stop the thread and let go of the buffers."""
        self._closed = True
        self._ahead = None
        if self._thread is not None:
            self._requests.put(None)
            self._thread.join()
            self._thread = None
        self._buffers = []

    def __enter__(self) -> "ReadAhead":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _new_buffer(header: bytes, run_bytes: int) -> memoryview:
    view = memoryview(np.empty(len(header) + run_bytes, dtype=np.uint8))
    view[: len(header)] = header
    return view


def _serve(reader: PageReader, requests: "queue.SimpleQueue[_Request | None]") -> None:
    while (request := requests.get()) is not None:
        _fill(reader, request)
        del request  # an idle thread holds no buffer


def _fill(reader: PageReader, request: _Request) -> None:
    try:
        reader.read_into(request.first, request.count, request.buffer[len(reader.header) :])
        table = reader.decode(request.first, request.count, request.buffer)
    except BaseException as error:
        request.result.set_exception(error)
    else:
        request.result.set_result(table)
