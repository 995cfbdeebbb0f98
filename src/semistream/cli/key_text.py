"""Key columns as text: ``custkey``, ``buyer=custkey``, several after commas."""

from semistream.core.errors import InvalidArgument

__all__ = ["parse_key"]


def parse_key(on: str) -> dict[str, str]:
    """Return ``{stream column: master column}``.

    >>> parse_key("a,b=c")
    {'a': 'a', 'b': 'c'}
    """
    pairs = [part.partition("=") for part in on.split(",")]
    keys = {stream.strip(): (master if equals else stream).strip() for stream, equals, master in pairs}
    if len(keys) < len(pairs) or not all(keys) or not all(keys.values()):
        raise InvalidArgument(f"on={on!r} is not a key: write NAME or STREAM=MASTER, more after commas")
    return keys
