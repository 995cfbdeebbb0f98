"""What a page of a schema must look like, for the check of pages before they are used."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from semistream.kernels.pages import page_check as kinds
from semistream.kernels.pages.page_check import first_malformed

__all__ = ["PageCheck"]


class PageCheck:
    """Finds pages whose record batch points outside of the page.

    Examples
    --------
    >>> batch = pa.record_batch({"id": [1, 2], "city": ["Rome", "Oslo"]})
    >>> raw = np.frombuffer(batch.serialize(), np.uint8)
    >>> check = PageCheck(batch.schema)
    >>> check.first_malformed(raw, np.array([0]), np.array([raw.size]), np.array([2], np.int32))
    -1
    >>> check.first_malformed(raw, np.array([0]), np.array([raw.size]), np.array([3], np.int32))
    0
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._columns: list[tuple[int, int, int]] = []
        self._num_buffers = 0
        self.is_complete = True
        for dtype in schema.types:
            self._add(dtype, -1)
        columns = np.array(self._columns, dtype=np.int64).reshape(-1, 3)
        self._kinds = columns[:, 0].astype(np.int32)
        self._widths = np.ascontiguousarray(columns[:, 1])
        self._parents = columns[:, 2].astype(np.int32)

    def _add(self, dtype: pa.DataType, parent: int) -> None:
        if isinstance(dtype, pa.BaseExtensionType):
            dtype = dtype.storage_type
        number = len(self._columns)
        if pt.is_string_view(dtype) or pt.is_binary_view(dtype):
            self.is_complete = False  # Arrow checks these
        elif pt.is_null(dtype):
            self._columns.append((kinds.NULL, 0, parent))
        elif pt.is_fixed_size_list(dtype):
            self._columns.append((kinds.FIXED_LIST, dtype.list_size, parent))
        elif pt.is_struct(dtype):
            self._columns.append((kinds.STRUCT, 0, parent))
        elif dtype.num_fields:
            self._columns.append((kinds.LIST, 8 if pt.is_large_list(dtype) else 4, parent))
        elif pt.is_string(dtype) or pt.is_binary(dtype):
            self._columns.append((kinds.TEXT, 4, parent))
        elif pt.is_large_string(dtype) or pt.is_large_binary(dtype):
            self._columns.append((kinds.TEXT, 8, parent))
        else:
            self._columns.append((kinds.FIXED, dtype.bit_width, parent))
        self._num_buffers += 0 if pt.is_null(dtype) else 1 if pt.is_fixed_size_list(dtype) else dtype.num_buffers
        for at in range(dtype.num_fields):
            self._add(dtype.field(at).type, number)

    def first_malformed(
        self,
        raw: npt.NDArray[np.uint8],
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        rows: npt.NDArray[np.int32],
    ) -> int:
        """Return the first page that is no record batch of the schema, or -1; views are left to Arrow."""
        if not self.is_complete:
            return -1
        return first_malformed(raw, starts, sizes, rows, self._kinds, self._widths, self._parents, self._num_buffers)
