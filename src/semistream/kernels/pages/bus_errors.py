"""A handler of SIGBUS, compiled: it allocates nothing, and so may run wherever mapped memory is read.

The handler and the list of what it watches are one piece of compiled code, whose form is the same in every process: the
list lies in memory of the code itself.

::

    mmap │ sigaction │ action before ║ begin │ end │ lost ║ begin │ end │ lost ║ ...
"""

import ctypes
import mmap
from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types

from semistream.kernels.arrays import UInt64s
from semistream.kernels.compile import callback
from semistream.kernels.pages.addresses import word_at

__all__ = ["BEGIN", "END", "LOST", "handle_bus_error", "watch_list"]

BEGIN, END, LOST = range(3)  # columns of a watched range
_MOST_RANGES = 1024
_HEADER_WORDS = _COLUMNS = 3
_MAP_MEMORY, _SET_ACTION, _OLD_ACTION = (np.uint64(8 * word) for word in range(_HEADER_WORDS))
_WORDS = _HEADER_WORDS + _COLUMNS * _MOST_RANGES
_WORD_BYTES = np.uint64(8)
_ADDRESS_AT = np.uint64(16)  # of si_addr in siginfo_t
_EMPTY_PAGE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x10  # MAP_FIXED
_PAGE = mmap.PAGESIZE
_PAGE_MASK = np.uint64(~(_PAGE - 1) & (1 << 64) - 1)

_INT = ir.IntType(32)
_WORD = ir.IntType(64)
_POINTER = ir.IntType(8).as_pointer()


@numba.extending.intrinsic
def _list_address(_: Any) -> Any:
    """Return the address of the list, which is zero when the code is loaded."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, name = ir.ArrayType(_WORD, _WORDS), "semistream_watch_list"
        known = builder.module.globals.get(name)
        if known is None:
            known = ir.GlobalVariable(builder.module, kind, name)
            known.linkage, known.initializer = "internal", ir.Constant(kind, None)
        return builder.ptrtoint(known, _WORD)

    return types.uint64(), generate


@numba.extending.intrinsic
def _put_empty_page(_: Any, function: Any, address: Any) -> Any:
    """Call ``mmap``, which lies at ``function``, to put an empty page at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, address = arguments
        kind = ir.FunctionType(_POINTER, [_POINTER, _WORD, _INT, _INT, _INT, _WORD])
        pointer = builder.inttoptr(function, kind.as_pointer())
        page = builder.inttoptr(address, _POINTER)
        builder.call(pointer, [page, _WORD(_PAGE), _INT(mmap.PROT_READ), _INT(_EMPTY_PAGE), _INT(-1), _WORD(0)])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@numba.extending.intrinsic
def _set_action(_: Any, function: Any, number: Any, action: Any) -> Any:
    """Call ``sigaction``, which lies at ``function``."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function, number, action = arguments
        kind = ir.FunctionType(_INT, [_INT, _POINTER, _POINTER])
        pointer = builder.inttoptr(function, kind.as_pointer())
        builder.call(pointer, [number, builder.inttoptr(action, _POINTER), _POINTER(None)])
        return context.get_dummy_value()

    return types.void(types.uint64, types.int32, types.uint64), generate


@numba.extending.intrinsic
def _set_word(_: Any, address: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        address, value = arguments
        builder.store(value, builder.inttoptr(address, _WORD.as_pointer()))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@callback(types.uint64(types.int32, types.uint64, types.uint64))
def handle_bus_error(number: Any, info: Any, _: Any) -> Any:
    """Put an empty page where a watched range lost one, and note that; any other address is as without this handler.

    Called with number 0, which no signal has, it returns the address of the list.
    """
    head = _list_address()
    if number == 0:
        return head
    address = np.uint64(word_at(info + _ADDRESS_AT))
    row = head + np.uint64(8 * _HEADER_WORDS)
    for _ in range(_MOST_RANGES):
        if np.uint64(word_at(row)) <= address and address < np.uint64(word_at(row + _WORD_BYTES)):
            _put_empty_page(np.uint64(word_at(head + _MAP_MEMORY)), address & _PAGE_MASK)
            _set_word(row + np.uint64(2) * _WORD_BYTES, np.uint64(1))
            return head
        row += np.uint64(8 * _COLUMNS)
    # The access is tried again, and ends as it would have without us.
    _set_action(np.uint64(word_at(head + _SET_ACTION)), number, np.uint64(word_at(head + _OLD_ACTION)))
    return head


def watch_list() -> tuple[UInt64s, UInt64s]:
    """Return the header of the list, to be filled before the handler is installed, and the watched ranges."""
    words = (ctypes.c_uint64 * _WORDS).from_address(handle_bus_error.ctypes(0, 0, 0))
    whole = np.ctypeslib.as_array(words)
    return whole[:_HEADER_WORDS], whole[_HEADER_WORDS:].reshape(-1, _COLUMNS)
