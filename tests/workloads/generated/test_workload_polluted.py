"""The stream that a scan pollutes."""

from typing import Any

import numpy as np
import pytest

from semistream.core.errors import InvalidArgument
from semistream.workloads import STREAM_SCHEMA, polluted_stream, stream


def test_the_walk_meets_each_key_once_and_in_order() -> None:
    arguments: dict[str, Any] = {"key_domain": 100_000, "batch_rows": 700, "seed": 5}
    polluted = polluted_stream(20_000, scan_share=0.3, **arguments).read_all()
    clean = polluted_stream(20_000, scan_share=0.0, **arguments).read_all()
    assert polluted.schema.equals(STREAM_SCHEMA)
    keys = polluted["key"].to_numpy()
    changed = keys[keys != clean["key"].to_numpy()]
    assert changed.size / keys.size == pytest.approx(0.3, abs=0.02)
    assert np.all(np.diff(changed) >= 1)
    assert changed[-1] - changed[0] <= changed.size + 2  # a tuple that happened to have the walk's key is not seen


def test_without_a_walk_it_is_the_skewed_stream() -> None:
    arguments: dict[str, Any] = {"key_domain": 1000, "zipf_exponent": 0.8, "seed": 2}
    assert polluted_stream(3000, scan_share=0.0, **arguments).read_all().equals(stream(3000, **arguments).read_all())


def test_the_walk_begins_again_at_the_end() -> None:
    keys = polluted_stream(25, key_domain=10, scan_share=1.0, batch_rows=7).read_all()["key"].to_pylist()
    assert keys == [number % 10 for number in range(25)]


@pytest.mark.parametrize("arguments", [{"scan_share": 1.5}, {"scan_share": -0.1}, {"batch_rows": 0}])
def test_arguments_are_checked(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match=next(iter(arguments))):
        polluted_stream(**{"num_tuples": 10, "key_domain": 10, **arguments})
