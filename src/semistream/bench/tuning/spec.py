"""What the benchmark of dynamic tuning measures."""

from dataclasses import dataclass, replace

from semistream.core.errors import InvalidArgument

__all__ = ["TuningSpec"]

_TICKS_OF_PERIOD = 1024


@dataclass(frozen=True)
class TuningSpec:
    """The self-similar stream of ten virtual streams, by the 80/20 rule, on two time scales.

    A tuple stays in the window for one scan of the table, so that memory can follow a burst only as fast as a scan.
    The ticks of the slow stream are several scans long: the memory for each can be reached. Those of the fast stream
    are a part of a scan: only their mean over a scan can be followed, and the peak is that of a scan too.

    Attributes
    ----------
    peak_share
        Tuples that arrive in the busiest scan, as a share of the table's rows.
    slow_tick_scans, fast_tick_scans
        How long a tick is, in scans of the table.
    slow_ticks, fast_ticks
        How many ticks are replayed: of the 1024 of a period the part with the busiest, so that the peak is that of the
        whole period, and the mean above it.
    most_wait_scans
        The longest that a tuple may wait for room in the stream buffer, in scans, where a join keeps up; a seek comes
        on top, during which no join takes anything.
    budget_factor
        What the self-tuned join may take, as a multiple of the memory of the best fixed one: more than the target
        allows, so that it is not the budget which keeps it.
    """

    rows: int = 2_000_000
    page_bytes: int = 65_536
    burstiness: float = 0.6
    zipf_exponent: float = 1.0
    peak_share: float = 0.08
    slow_tick_scans: float = 4.0
    slow_ticks: int = 16
    fast_tick_scans: float = 0.125
    fast_ticks: int = 256
    most_wait_scans: float = 0.05
    budget_factor: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.rows < 1000:
            raise InvalidArgument(f"rows={self.rows} must be at least 1000")
        for name in ("slow_ticks", "fast_ticks"):
            ticks = getattr(self, name)
            if ticks < 2 or _TICKS_OF_PERIOD % ticks:
                raise InvalidArgument(f"{name}={ticks} must be a power of 2 from 2 to {_TICKS_OF_PERIOD}")
        for name in ("peak_share", "slow_tick_scans", "fast_tick_scans", "most_wait_scans"):
            if not getattr(self, name) > 0:
                raise InvalidArgument(f"{name}={getattr(self, name)} must be above 0")
        if not self.budget_factor > 1:
            raise InvalidArgument(f"budget_factor={self.budget_factor} must be above 1")

    @staticmethod
    def quick() -> "TuningSpec":
        """Return a spec that takes seconds, without verdicts."""
        return TuningSpec(rows=60_000, page_bytes=16_384, slow_ticks=4, fast_ticks=32)

    @property
    def is_default_size(self) -> bool:
        """Whether the targets speak of it."""
        return replace(self, seed=0) == TuningSpec()
