"""The memory report and the counters."""

import os

import pytest

from semistream.core.budget import MemoryReport, require_at_least, require_on_machine
from semistream.core.errors import BudgetTooSmall, StateTooLarge
from semistream.core.metrics import Metrics


def test_the_total_is_the_sum_of_the_components() -> None:
    report = MemoryReport(4096, {"H_S": 1000, "queue": 24})
    assert report.total_bytes == 1024
    assert str(report) == "1.0KB of 4.0KB: H_S 1000B, queue 24B"
    assert MemoryReport(4096).total_bytes == 0


def test_reports_do_not_share_their_components() -> None:
    MemoryReport(1).components["x"] = 1
    assert MemoryReport(1).components == {}


def test_a_budget_below_the_least_is_an_error_that_names_it() -> None:
    require_at_least(2048, 2048, "meshjoin")
    with pytest.raises(BudgetTooSmall) as caught:
        require_at_least(2047, 2048, "meshjoin on /t")
    expected = "memory=2047 bytes is too small for meshjoin on /t: give at least 2048 bytes (2.0KB)"
    assert str(caught.value) == expected


def test_a_budget_above_the_memory_of_the_machine_is_an_error_that_names_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1024, "SC_PAGE_SIZE": 4096}.__getitem__)
    require_on_machine(4 << 20)
    with pytest.raises(StateTooLarge) as caught:
        require_on_machine((4 << 20) + 1)
    expected = "memory=4194305 bytes (4.0MB) is more than this machine has: give at most its 4194304 bytes (4.0MB)"
    assert str(caught.value) == expected


def test_counters_start_at_zero_and_copy_through_a_dict() -> None:
    metrics = Metrics()
    assert set(metrics.as_dict().values()) == {0}
    metrics.rows_out = 3
    copy = Metrics(**metrics.as_dict())
    metrics.rows_out = 4
    assert copy.rows_out == 3
    assert copy == Metrics(rows_out=3)


def test_the_cache_share_is_of_answered_tuples() -> None:
    assert Metrics().cache_share == 0.0
    assert Metrics(tuples_answered=8, tuples_through_cache=2, tuples_through_disk=6).cache_share == 0.25


def test_hits_are_from_the_cache_or_from_pages_in_memory() -> None:
    assert Metrics(tuples_answered=3).hit_ratio == 0.0, "of NULL keys"
    metrics = Metrics(tuples_answered=9, tuples_through_cache=2, tuples_in_place=4, tuples_through_disk=2)
    assert (metrics.hits, metrics.hit_ratio) == (6, 0.75)
