"""Random changes of JSON, arrays and bytes, towards values that break things."""

import copy
from random import Random
from typing import Any

import numpy as np

from semistream.core.saved_state import Array, SavedState

__all__ = ["changed_array", "changed_bytes", "changed_json", "changed_state"]

_WHOLE = [-1, 0, 1, 2, 7, 255, 256, 1 << 15, 1 << 31, -(1 << 31), (1 << 31) - 1, 1 << 32, 1 << 53, (1 << 63) - 1]
_WHOLE += [-(1 << 63), 1 << 63, 1 << 64, 10**30, -(10**30)]
_OTHER: list[Any] = [
    None,
    True,
    False,
    "",
    "x",
    "../x",
    "\x00",
    [],
    {},
    [[]],
    0.5,
    -0.5,
    1e308,
    float("nan"),
    float("inf"),
    [1, 2],
]
_TYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return (container, key) of all values inside a value."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            found += _places(value[key])
    return found


def changed_json(random: Random, value: Any) -> Any:
    """Return a copy with one to three values changed, left out or doubled."""
    value = copy.deepcopy(value)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        places = _places(value)
        if not places:
            return random.choice(_OTHER)
        container, key = random.choice(places)
        old = container[key]
        action = random.random()
        if isinstance(old, int) and action < 0.45:
            container[key] = old + random.choice([-2, -1, 1, 2, old, -old])
        elif action < 0.75:
            container[key] = random.choice(_WHOLE)
        elif action < 0.9:
            container[key] = copy.deepcopy(random.choice(_OTHER))
        elif action < 0.93:
            container[key] = copy.deepcopy(value)
        elif action < 0.97 or isinstance(container, dict):
            del container[key]
        else:
            container.append(copy.deepcopy(old))
    return value


def changed_bytes(random: Random, content: bytes, most: int = 4) -> bytes:
    """Return bytes with some bits, bytes or words changed."""
    raw = bytearray(content)
    for _ in range(random.randint(1, most) if raw else 0):
        at = random.randrange(len(raw))
        action = random.random()
        if action < 0.4:
            raw[at] ^= 1 << random.randrange(8)
        elif action < 0.6:
            raw[at] = random.choice([0, 1, 127, 128, 255])
        else:
            width = random.choice([2, 4, 8])
            at -= at % width
            word = random.choice(_WHOLE) & ((1 << 8 * width) - 1)
            raw[at : at + width] = word.to_bytes(width, "little")[: len(raw) - at]
    return bytes(raw)


def changed_array(random: Random, array: Array) -> Array:
    """Return an array with other values, length, shape or type."""
    action = random.random()
    if action < 0.08:
        return array.astype(random.choice(_TYPES))
    if action < 0.16:
        return array[: random.randrange(len(array) + 1)] if array.ndim else array
    if action < 0.22:
        return np.concatenate([array, array[: random.randint(1, 5)]])
    if action < 0.26:
        return array.reshape(-1, 1)
    array = array.copy()
    if not array.size:
        return array
    flat = array.reshape(-1)
    if action < 0.34:
        np.random.default_rng(random.getrandbits(32)).shuffle(flat)
    elif action < 0.5:
        raw = changed_bytes(random, flat.tobytes(), 3)
        return np.frombuffer(raw, array.dtype).reshape(array.shape).copy()
    else:
        for _ in range(random.choice([1, 1, 2, 8])):
            at = random.randrange(flat.size)
            kind = random.random()
            if kind < 0.5:
                flat[at] = flat[random.randrange(flat.size)]
            elif array.dtype.kind == "f":
                flat[at] = random.choice([np.nan, np.inf, -np.inf, -1, 0, 1e30])
            else:
                width = 8 * array.dtype.itemsize
                word = random.choice([*_WHOLE, flat.size, flat.size - 1]) & ((1 << width) - 1)
                view = flat.view(np.uint8) if array.dtype == np.bool_ else flat.view(f"u{array.dtype.itemsize}")
                view[at] = word
    return array


def changed_state(random: Random, saved: SavedState) -> SavedState:
    """Return a state with a changed header, or with some changed arrays."""
    header, arrays = saved.header, {name: np.asarray(array) for name, array in saved.arrays.items()}
    action = random.random()
    if action < 0.45 or not arrays:
        names = [name for name in header if name != "join"]
        if random.random() < 0.95:
            changed = changed_json(random, {name: header[name] for name in names})
            header = {**header, **changed} if isinstance(changed, dict) else changed
        else:
            header = changed_json(random, header)
    if action >= 0.4 and arrays:
        for _ in range(random.choice([1, 1, 2, 4])):
            name = random.choice(list(arrays))
            if random.random() < 0.03:
                del arrays[name]
                break
            arrays[name] = changed_array(random, arrays[name])
    return SavedState(header if isinstance(header, dict) else {}, arrays, exact=saved.exact)
