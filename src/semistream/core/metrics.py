"""The counters of an operator."""

from dataclasses import dataclass, field

__all__ = ["Metrics"]


@dataclass
class Metrics:
    """Counters of one operator since it was made or restored.

    All results of an ``answered`` tuple are out. Of those with a key, the cache answered some, pages that were in
    memory anyway (``tuples_in_place``) others, and the disk phase the rest. ``pages_read`` and ``bytes_read`` include
    pages that were read ahead and not used. ``reads`` counts runs of pages read in one go, and ``seeks`` those that did
    not begin where the one before ended: a scan seeks once per file. ``tuples_shed`` and ``tuples_reloaded`` stay zero
    for operators that never shed load. ``tuples_dropped`` were shed for good: the result leaves them out.
    ``shed_strategy`` is the rule that chooses them, or ``"none"``.
    """

    tuples_in: int = 0
    tuples_answered: int = 0
    rows_out: int = 0
    tuples_through_cache: int = 0
    tuples_in_place: int = 0
    tuples_through_disk: int = 0
    tuples_without_match: int = 0
    tuples_shed: int = 0
    tuples_reloaded: int = 0
    tuples_dropped: int = 0
    pages_read: int = 0
    bytes_read: int = 0
    reads: int = 0
    seeks: int = 0
    steps: int = 0
    cycles: int = 0
    offers_refused: int = 0
    shed_strategy: str = field(default="none", init=False)

    @property
    def cache_share(self) -> float:
        """The share of answered tuples that the cache answered."""
        return self.tuples_through_cache / self.tuples_answered if self.tuples_answered else 0.0

    @property
    def hits(self) -> int:
        """Tuples answered from memory: by the cache, or by pages that were there anyway."""
        return self.tuples_through_cache + self.tuples_in_place

    @property
    def hit_ratio(self) -> float:
        """Hits among the tuples that memory or the disk answered; 0.0 when there were none."""
        asked = self.hits + self.tuples_through_disk
        return self.hits / asked if asked else 0.0

    @property
    def dropped_share(self) -> float:
        """The share of all tuples that the result leaves out."""
        return self.tuples_dropped / self.tuples_in if self.tuples_in else 0.0

    def since(self, before: "Metrics") -> "Metrics":
        """Return the growth of the counters."""
        counted_before = before.as_dict()
        return Metrics(**{name: count - counted_before[name] for name, count in self.as_dict().items()})

    def as_dict(self) -> dict[str, int]:
        """Return the counters by name."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}
