"""Settings of an algorithm as text: ``cache_share=0.2``."""

from collections.abc import Sequence
from typing import Any, get_args, get_type_hints

from semistream.core.errors import InvalidArgument
from semistream.operators import algorithm

__all__ = ["parse_options"]

_HAS_AN_OPTION_OF_ITS_OWN = "order"
_KINDS: dict[type[int] | type[float], str] = {int: "a whole number", float: "a number"}


def parse_options(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """Return the settings that ``NAME=VALUE`` texts give to the algorithm ``name``, each of the type that it takes.

    Examples
    --------
    >>> parse_options("cmeshjoin", ["cache_share=0.2", "b=8", "shedding=keep"])
    {'cache_share': 0.2, 'b': 8, 'shedding': 'keep'}
    """
    if name == "auto" and texts:
        raise InvalidArgument(f"option {texts[0]!r} is for one algorithm: name it with --algorithm in place of auto")
    if name == "auto":
        return {}
    chosen = algorithm(name)
    types = get_type_hints(chosen.config)
    options: dict[str, Any] = {}
    for text in texts:
        option, equals, value = (part.strip() for part in text.partition("="))
        if not option or not equals or not value:
            raise InvalidArgument(f"option {text!r} cannot be read: write NAME=VALUE, such as io=drop_behind")
        if option == _HAS_AN_OPTION_OF_ITS_OWN:
            raise InvalidArgument(f"option {text!r} has a place of its own: write --order {value}")
        if option not in chosen.option_names:
            known = ", ".join(name for name in chosen.option_names if name != _HAS_AN_OPTION_OF_ITS_OWN)
            raise InvalidArgument(f"option {option!r} is unknown to {name}: use one of {known}")
        if option in options:
            raise InvalidArgument(f"option {option!r} is given twice: give it once")
        options[option] = _value(option, value, types[option])
    return options


def _value(option: str, text: str, declared: Any) -> int | float | str:
    """Return ``text`` as the number that is declared, or as it is when none is."""
    for kind, description in _KINDS.items():
        if kind in (declared, *get_args(declared)):
            try:
                return kind(text)
            except ValueError:
                raise InvalidArgument(f"option {option}={text!r} is not {description}: give one") from None
    return text
