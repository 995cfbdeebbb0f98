"""Reads the claims of the papers, one file per paper."""

import sys
from functools import cache
from importlib.resources import files
from typing import Any

from semistream.bench.extras import import_extra
from semistream.bench.reproduction.claim import Claim

__all__ = ["claimed_figures", "claims_of"]


def claims_of(figure: str) -> list[Claim]:
    """Return what the paper says of a figure.

    Examples
    --------
    >>> [claim.paper for claim in claims_of("S0-5a")]
    [7.0, 8.0]
    """
    return [Claim(**content) for content in _all_claims().get(figure, [])]


def claimed_figures() -> list[str]:
    """Return the figures of which claims are recorded."""
    return list(_all_claims())


@cache
def _all_claims() -> dict[str, list[dict[str, Any]]]:
    toml: Any = import_extra("tomllib" if sys.version_info >= (3, 11) else "tomli", "bench", "reading claims")
    claims: dict[str, list[dict[str, Any]]] = {}
    for file in sorted(files("semistream.bench.reproduction").joinpath("claims").iterdir(), key=lambda file: file.name):
        claims.update(toml.loads(file.read_text()))
    return claims
