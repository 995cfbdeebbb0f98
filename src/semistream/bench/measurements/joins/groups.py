"""Groups of a grid: parameters that are lists span it, and every combination of their values is a group."""

from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Any

__all__ = ["groups_of"]

_TEXTS = {"rows": "{:,} rows", "zipf_exponent": "skew {:g}"}


def groups_of(parameters: Mapping[str, Any], lists: Collection[str] = ("x",)) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the parameters of every group; ``lists`` are parameters that are lists in every group.

    Examples
    --------
    >>> [name for name, _ in groups_of({"rows": [1000], "zipf_exponent": [0.0, 1.0], "x": [1, 2]})]
    ['1,000 rows, skew 0', '1,000 rows, skew 1']
    >>> list(groups_of({"rows": 1000, "x": [1, 2]}))
    [('', {'rows': 1000, 'x': [1, 2]})]
    """
    axes = {name: value for name, value in parameters.items() if isinstance(value, list) and name not in lists}
    for values in product(*axes.values()):
        chosen = dict(zip(axes, values, strict=True))
        yield ", ".join(_text(name, value) for name, value in chosen.items()), {**parameters, **chosen}


def _text(name: str, value: Any) -> str:
    return _TEXTS[name].format(value) if name in _TEXTS else f"{name} {value}"
