"""How deep a test digs: `make test` runs a covering sample, `make test-all` everything."""

from hypothesis import settings

__all__ = ["examples"]


def examples(factor: float) -> settings:
    """Return settings with ``factor`` times the examples of the profile, but at least three."""
    return settings(max_examples=max(3, round(settings().max_examples * factor)))
