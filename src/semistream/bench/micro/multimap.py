"""The multi-map kernels against their plain twins, and uniform keys against one key that holds 5%."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Protocol

import numpy as np
import numpy.typing as npt

from semistream.bench.micro.spec import MicroSpec
from semistream.bench.result_file import Entry
from semistream.kernels.multimap import FifoMultimap
from semistream.kernels.multimap_plain import PlainFifoMultimap

__all__ = ["bench_multimap"]

_SPEEDUP_TARGET = 6.0
_FLATNESS_TARGET = 1.5
_HOT_SHARE = 0.05
_SPEEDUP_RATIO_OF = "multi-map: time per tuple of the plain Python twin / of the compiled kernel"
_FLATNESS_RATIO_OF = "multi-map flatness: time per tuple with one key that holds 5% / with uniform keys"
_OPERATIONS = (
    "first fill",
    "insert",
    "probe, hits",
    "probe, misses",
    "count",
    "expire",
    "delete",
)

_Int64s = npt.NDArray[np.int64]
_Samples = dict[str, list[float]]  # nanoseconds per tuple, by operation


class _Multimap(Protocol):
    def __len__(self) -> int: ...
    def insert(self, codes: _Int64s) -> object: ...
    def probe(self, codes: _Int64s) -> object: ...
    def count(self, codes: _Int64s) -> object: ...
    def expire(self, count: int) -> object: ...
    def delete(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]: ...


@dataclass(frozen=True)
class _Keys:
    """Key codes of one distribution: a full map, an eighth of it to work with, and keys to delete."""

    fill: _Int64s
    portion: _Int64s
    absent: _Int64s
    deleted: _Int64s


def bench_multimap(spec: MicroSpec, report: Callable[[str], None]) -> list[Entry]:
    """Return a speed-up per operation and distribution, and a flatness per operation."""
    uniform, hot = "uniform keys", "one key with 5%"
    _measure(FifoMultimap(1000), _keys(1000, hot_share=_HOT_SHARE, seed=spec.seed), {})  # compiles
    ours_ns: dict[str, _Samples] = {uniform: {}, hot: {}}
    plain_ns: dict[str, _Samples] = {uniform: {}, hot: {}}
    shares = {uniform: 0.0, hot: _HOT_SHARE}
    ours_keys = {name: _keys(spec.multimap_entries, share, spec.seed) for name, share in shares.items()}
    plain_keys = {name: _keys(spec.plain_entries, share, spec.seed) for name, share in shares.items()}
    for repeat in range(spec.repeats):
        # All that is compared takes turns, so that other work on the machine slows all of it.
        for name in shares:
            report(f"multi-map, {name}: run {repeat + 1} of {spec.repeats}")
            _measure(FifoMultimap(spec.multimap_entries), ours_keys[name], ours_ns[name])
            _measure(PlainFifoMultimap(spec.plain_entries), plain_keys[name], plain_ns[name])
    speedups = [
        _speedup(spec, operation, name, ours_ns[name][operation], plain_ns[name][operation])
        for operation in _OPERATIONS
        for name in (uniform, hot)
    ]
    flatness = [
        Entry(
            f"multi-map {operation}, flatness",
            median(ours_ns[hot][operation]) / median(ours_ns[uniform][operation]),
            _FLATNESS_TARGET,
            "at most",
            {
                "uniform_ns_per_tuple": median(ours_ns[uniform][operation]),
                "one_key_with_5_percent_ns_per_tuple": median(ours_ns[hot][operation]),
            },
            _FLATNESS_RATIO_OF,
        )
        for operation in _OPERATIONS
    ]
    return speedups + flatness


def _speedup(spec: MicroSpec, operation: str, keys: str, ours_ns: list[float], plain_ns: list[float]) -> Entry:
    details = {
        "ns_per_tuple": median(ours_ns),
        "plain_ns_per_tuple": median(plain_ns),
        "entries": spec.multimap_entries,
        "plain_entries": spec.plain_entries,
        "all_ns_per_tuple": ours_ns,
        "all_plain_ns_per_tuple": plain_ns,
    }
    value = median(plain_ns) / median(ours_ns)
    return Entry(f"multi-map {operation}, {keys}", value, _SPEEDUP_TARGET, "at least", details, _SPEEDUP_RATIO_OF)


def _keys(entries: int, hot_share: float, seed: int) -> _Keys:
    # As many keys as entries: about as many tuples per key as a stream window has over a master table.
    rng = np.random.default_rng(seed)
    hot_key = entries

    def draw(count: int) -> _Int64s:
        codes = rng.integers(0, entries, size=count, dtype=np.int64)
        codes[rng.random(count) < hot_share] = hot_key
        return codes

    fill = draw(entries)
    some_keys = rng.permutation(entries)[: max(1, entries // 8)]
    deleted = np.array([hot_key]) if hot_share else some_keys
    portion = draw(max(1, entries // 8))
    absent = rng.integers(2 * entries, 2**62, size=portion.size, dtype=np.int64)
    return _Keys(fill, portion, absent, deleted)


def _measure(multimap: _Multimap, keys: _Keys, samples: _Samples) -> None:
    """Add the nanoseconds per tuple of every operation to ``samples``."""
    portion = keys.portion.size
    with _no_collection():
        _time(samples, "first fill", keys.fill.size, lambda: multimap.insert(keys.fill))
        _time(samples, "expire", portion, lambda: multimap.expire(portion))
        # Into memory that was in use before: what a window does for ever after.
        _time(samples, "insert", portion, lambda: multimap.insert(keys.portion))
        _time(samples, "probe, hits", portion, lambda: multimap.probe(keys.portion))
        _time(samples, "probe, misses", portion, lambda: multimap.probe(keys.absent))
        _time(samples, "count", portion, lambda: multimap.count(keys.portion))
        before = len(multimap)
        started_ns = time.perf_counter_ns()
        multimap.delete(keys.deleted)
        elapsed_ns = time.perf_counter_ns() - started_ns
    samples.setdefault("delete", []).append(elapsed_ns / max(1, before - len(multimap)))


def _time(samples: _Samples, operation: str, tuples: int, work: Callable[[], object]) -> None:
    started_ns = time.perf_counter_ns()
    work()
    samples.setdefault(operation, []).append((time.perf_counter_ns() - started_ns) / tuples)


@contextmanager
def _no_collection() -> Iterator[None]:
    # A collection would cost the plain twin, with its many small objects, more than the kernels.
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
