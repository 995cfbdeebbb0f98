"""Collects the rows of chosen keys during one whole scan of a heap table.

Rows of a key may lie on any page, so its row set is whole after every page has come by once. Which keys are collected
is settled at the beginning: a key that is chosen later has missed pages.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semistream.core.saved_state import SavedState
from semistream.kernels.hashing.key_slots import KeySlots
from semistream.kernels.keys.key_codes import KeyCodes
from semistream.operators.cache.front_stage import Collecting, FrontStage
from semistream.operators.join import Part

__all__ = ["ScanCollector"]


class ScanCollector(Part):
    """Feeds a front stage from a cyclic scan of ``num_pages`` pages."""

    def __init__(self, front_stage: FrontStage, num_pages: int) -> None:
        self._front_stage = front_stage
        self._num_pages = num_pages
        self._collecting: Collecting | None = None
        self._watched: KeySlots | None = None
        self._pages_seen = 0
        self._random = np.random.default_rng(0)

    @property
    def is_idle(self) -> bool:
        """Whether a new collection can begin."""
        return self._collecting is None

    def begin(self, codes: npt.NDArray[np.int64], waiting: npt.NDArray[np.int32]) -> None:
        """Choose among these keys; their rows are collected from the next pages on."""
        assert self.is_idle
        # Keys come from a hash table in the order of their hashes. Equally frequent ones would be taken from its front,
        # and crowd together in the next hash table.
        order = self._random.permutation(codes.size)
        self._collect(self._front_stage.consider(codes[order], waiting[order]))
        self._pages_seen = 0

    def _collect(self, collecting: Collecting | None) -> None:
        self._collecting = collecting
        if collecting is not None:
            self._watched = KeySlots(collecting.sets.codes.size)
            self._watched.insert(collecting.sets.codes)  # slots are positions: they are taken in order

    def observe_pages(self, run: pa.RecordBatch, codes: KeyCodes, pages: int) -> None:
        """Collect from pages that came by, and cache what is complete."""
        self._front_stage.measure(run)
        if self._collecting is None or self._watched is None:
            return
        owners = self._watched.find(codes.code)
        if codes.valid is not None:
            owners[~codes.valid] = -1
        rows = np.flatnonzero(owners >= 0)
        self._collecting.sets.add(owners[rows], run, rows)
        self._pages_seen += pages
        assert self._pages_seen <= self._num_pages
        if self._pages_seen == self._num_pages:
            self._front_stage.take_in(self._collecting)
            self._collecting = self._watched = None

    def state(self, *, exact: bool) -> SavedState:
        saved = SavedState()
        if exact:
            saved.header.update(pages_seen=self._pages_seen, random=self._random.bit_generator.state)
            if self._collecting is not None:
                saved.put_part("collecting", self._collecting.state())
        return saved

    def set_state(self, saved: SavedState) -> None:
        self._pages_seen = saved.whole_number("pages_seen", 0, self._num_pages - ("collecting" in saved.header))
        self._random.bit_generator.state = saved.header["random"]
        if "collecting" in saved.header:
            self._collect(self._front_stage.collecting_of(saved.part("collecting")))
