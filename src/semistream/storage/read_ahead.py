"""Reads the next run of pages in the background while the current one is being used."""

import queue
import threading
import weakref
from collections.abc import Callable
from types import TracebackType

import pyarrow as pa

from semistream.core.errors import InvalidArgument, OperatorMisuse
from semistream.storage.page_reader import PageReader

__all__ = ["ReadAhead"]


class _Run:
    """A run on its way through a buffer: loaded, then checked and decoded by whoever comes first."""

    def __init__(self, reader: PageReader, first: int, count: int, buffer: memoryview) -> None:
        self._reader = reader
        self.first = first
        self.count = count
        self._buffer = buffer
        self._loaded = threading.Event()
        self._decoded = threading.Event()
        self._unclaimed = threading.Lock()
        self._error: BaseException | None = None
        self._table: pa.Table | None = None

    @property
    def _pages(self) -> memoryview:
        return self._buffer[len(self._reader.header) :]

    def load(self) -> None:
        try:
            self._reader.load(self.first, self.count, self._pages)
        except BaseException as error:  # to be raised where the run is asked for
            self._error = error
        self._loaded.set()

    def claim(self) -> bool:
        """Take the right, and with it the duty, to decode; it is there once."""
        return self._unclaimed.acquire(blocking=False)

    def decode_unless_claimed(self) -> None:
        if self.claim():
            self.decode()

    def decode(self) -> None:
        try:
            if self._error is None:
                self._reader.verify(self.first, self.count, self._pages)
                self._table = self._reader.decode(self.first, self.count, self._buffer)
        except BaseException as error:
            self._error = error
        self._decoded.set()

    def wait_until_loaded(self) -> None:
        self._loaded.wait()

    def forget(self) -> None:
        """Return when nobody uses the buffer any more."""
        self._loaded.wait()
        if not self.claim():
            self._decoded.wait()

    def result(self) -> pa.Table:
        self._decoded.wait()
        if self._error is not None:
            raise self._error
        assert self._table is not None
        return self._table


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
        self._buffers = [reader.new_buffer(buffer_bytes) for _ in range(2)]
        self._free = 0  # the buffer that holds no table in use
        self._ahead: _Run | None = None
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
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
        self._begin(first, count)
        self._finish_in_background()

    def _begin(self, first: int, count: int) -> None:
        self._ahead = self._new_run(first, count)
        if self._thread is None:
            self._start()
        self._work.put(self._ahead.load)

    def _finish_in_background(self) -> None:
        if self._ahead is not None:
            self._work.put(self._ahead.decode_unless_claimed)

    def read(self, first: int, count: int, then: tuple[int, int] | None = None) -> pa.Table:
        """Return a run decoded, one chunk per page: the prefetched one if it is the same, else read now.

        Parameters
        ----------
        first, count
            The run.
        then
            (first, count) of the run to prefetch. As a call of `prefetch` right after this one, but it begins
            before this run is decoded; so the table of the read before is overwritten from the call on.
        """
        run, self._ahead = self._ahead, None
        if run is not None and (run.first, run.count) == (first, count):
            # Claimed before the wait: the thread goes on to the next run while this one is decoded here.
            claimed = run.claim()
            run.wait_until_loaded()
        else:
            if run is not None:
                run.forget()
            run = self._new_run(first, count)
            claimed = run.claim()
            run.load()
        self._free = 1 - self._free
        if then is not None:
            self._begin(*then)
        if claimed:
            run.decode()
        # Not before: a caller that comes straight back decodes that run too.
        self._finish_in_background()
        return run.result()

    def _new_run(self, first: int, count: int) -> _Run:
        if self._closed:
            raise OperatorMisuse("this ReadAhead is closed: make a new one to read on")
        run_bytes = self._reader.run_bytes(first, count)
        if run_bytes > self._buffer_bytes:
            raise InvalidArgument(
                f"a run of {run_bytes} bytes exceeds buffer_bytes={self._buffer_bytes}: read fewer pages"
            )
        self.pages_read += count
        self.bytes_read += run_bytes
        buffer = self._buffers[self._free][: len(self._reader.header) + run_bytes]
        return _Run(self._reader, first, count, buffer)

    def _start(self) -> None:
        # The thread does not know this object, so that it cannot keep it alive.
        self._thread = threading.Thread(
            target=_serve,
            args=(self._work,),
            name="semistream-read-ahead",
            daemon=True,
        )
        self._thread.start()
        weakref.finalize(self, self._work.put, None)

    def close(self) -> None:
        """Stop the thread and let go of the buffers."""
        self._closed = True
        self._ahead = None
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()
            self._thread = None
        self._buffers = []

    def __enter__(self) -> "ReadAhead":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _serve(work: "queue.SimpleQueue[Callable[[], None] | None]") -> None:
    while (task := work.get()) is not None:
        task()
        del task  # an idle thread holds no buffer
