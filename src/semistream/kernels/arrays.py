"""Names of the types of arrays."""

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Floats", "Int8s", "Int32s", "Int64s", "UInt8s", "UInt64s"]

Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float64]
Int8s: TypeAlias = npt.NDArray[np.int8]
Int32s: TypeAlias = npt.NDArray[np.int32]
Int64s: TypeAlias = npt.NDArray[np.int64]
UInt8s: TypeAlias = npt.NDArray[np.uint8]
UInt64s: TypeAlias = npt.NDArray[np.uint64]
