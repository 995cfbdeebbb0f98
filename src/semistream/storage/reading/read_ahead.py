"""Reads the next run of pages in the background while the current one is being used."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

import pyarrow as pa

from semistream.core.errors import InvalidArgument, OperatorMisuse
from semistream.storage.reading.page_directory import ReadPosition
from semistream.storage.reading.page_reader import PLACING_BYTES, PageReader

__all__ = ["ReadAhead"]


class ReadAhead:
    """Runs of pages as single record batches, each read, verified and decoded before it is asked for.

    A batch has memory of its own and lives as long as it is referred to.

    ::

        file ─► buffer ─ verify, decode ─► next run     (a background thread)
                                           run in use   (the caller's)

    Parameters
    ----------
    reader
        Used only through this object while it is open. The caller closes it.
    buffer_bytes
        Size of the largest run, such as ``reader.pages.max_run_bytes(run_pages)``.

    Attributes
    ----------
    pages_read, bytes_read
        Pages and bytes read so far, including runs that were read ahead in vain.
    """

    def __init__(self, reader: PageReader, buffer_bytes: int) -> None:
        if buffer_bytes < 1:
            raise InvalidArgument(f"buffer_bytes={buffer_bytes} must be at least 1")
        self._reader = reader
        self._buffer_bytes = buffer_bytes
        # Joining the pages of a run copies them out of the buffer.
        self._buffer: memoryview | None = reader.new_buffer(buffer_bytes)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="semistream-read-ahead")
        self._ahead: tuple[tuple[int, int], Future[pa.RecordBatch]] | None = None
        self._closed = False
        self._position = ReadPosition(reader.pages)
        self.pages_read = 0
        self.bytes_read = 0

    @property
    def reads(self) -> int:
        """Runs of pages that were read in one go."""
        return self._position.reads

    @property
    def seeks(self) -> int:
        """Reads that did not begin where the one before ended."""
        return self._position.seeks

    @staticmethod
    def bytes_for(header_bytes: int, buffer_bytes: int) -> int:
        """Return the most memory that reading takes, including the run in use."""
        return header_bytes + PLACING_BYTES + 3 * buffer_bytes

    def read(self, first: int, count: int, then: tuple[int, int] | None = None) -> pa.RecordBatch:
        """Return a run, and begin to read the one after it.

        Parameters
        ----------
        first, count
            The run: consecutive pages of one file.
        then
            (first, count) of the run that is likely to be asked for next.
        """
        ahead, self._ahead = self._ahead, None
        self._require_readable(first, count)
        if ahead is not None and ahead[0] == (first, count):
            run = ahead[1].result()
        else:
            if ahead is not None:
                ahead[1].exception()  # waits: the buffer is free once that run is done, well or not
            self._count(first, count)
            run = self._load(first, count)
        if then is not None:
            self.begin(*then)
        return run

    def begin(self, first: int, count: int) -> None:
        """Begin to read a run that is likely to be asked for next."""
        self._require_readable(first, count)
        if self._ahead is not None:
            self._ahead[1].exception()
        self._count(first, count)
        self._ahead = (first, count), self._thread.submit(self._load, first, count)

    def _load(self, first: int, count: int) -> pa.RecordBatch:
        if count == 1 or self._buffer is None:
            pages = self._reader.read(first, count)
        else:
            placed = self._reader.place(first, count, self._buffer)
            self._reader.read_into(first, count, placed[len(self._reader.header) :])
            pages = self._reader.decode(first, count, placed)
        # Arrow's own pool would keep what one thread allocates and another frees, and may not return it to the system.
        return pages.combine_chunks(memory_pool=pa.system_memory_pool()).to_batches()[0]

    def _require_readable(self, first: int, count: int) -> None:
        if self._closed:
            raise OperatorMisuse("this ReadAhead is closed: make a new one to read on")
        run_bytes = self._reader.run_bytes(first, count)
        if run_bytes > self._buffer_bytes:
            raise InvalidArgument(
                f"a run of {run_bytes} bytes exceeds buffer_bytes={self._buffer_bytes}: read fewer pages"
            )

    def _count(self, first: int, count: int) -> None:
        self.pages_read += count
        self.bytes_read += self._reader.run_bytes(first, count)
        self._position.read(first, count)

    def close(self) -> None:
        """Stop the thread and let go of the buffer."""
        self._closed = True
        self._thread.shutdown()
        self._ahead = None
        self._buffer = None

    def __enter__(self) -> "ReadAhead":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
