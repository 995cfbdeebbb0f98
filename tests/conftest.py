"""Two depths of property tests: `make test` runs the profile quick, `make test-all` the profile deep."""

import os

import pytest
from hypothesis import HealthCheck, settings

_SHARED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])

# The same examples every time: what `make test` finds it finds again. Other examples are for the deep run.
settings.register_profile("quick", _SHARED, max_examples=15, derandomize=True)
settings.register_profile("deep", _SHARED, max_examples=100)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

_FSYNC = os.fsync
_LONGEST = ("/test_staggered", "/test_punctuated_join", "tests/runtime/spark/", "tests/bench/", "tests/cost/")


def _no_fsync(fd: object) -> None:
    """Leave the file to the system: no table of a test has to survive a power cut, and waiting for disks is slow."""


def pytest_configure() -> None:
    os.fsync = _no_fsync


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that no worker is left with one of them in the end."""
    items.sort(key=lambda item: next((at for at, part in enumerate(_LONGEST) if part in item.nodeid), len(_LONGEST)))


def pytest_unconfigure() -> None:
    os.fsync = _FSYNC


@pytest.fixture
def real_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of the page cache, which only drops pages that are on disk."""
    monkeypatch.setattr(os, "fsync", _FSYNC)
