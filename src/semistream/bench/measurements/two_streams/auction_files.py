"""Auctions and bids as files for Spark, one of each stream for every micro-batch; punctuations are rows with a flag."""

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from semistream.core.punctuated_batch import PunctuatedBatch
from semistream.workloads import Auctions

__all__ = ["BIDS", "AuctionFiles"]

BIDS = 10  # to an auction
_OPEN_AUCTIONS = 1000


class AuctionFiles:
    """Both streams in a folder: about ``tuples`` auctions and bids together, in batches of ``batch_tuples``."""

    def __init__(self, folder: Path, *, tuples: int, batch_tuples: int, seed: int) -> None:
        self._per_batch = max(1, batch_tuples // (BIDS + 1))
        self.batches = max(1, round(tuples / (self._per_batch * (BIDS + 1))))
        self.batch_tuples = self._per_batch * (BIDS + 1)
        self._auctions = Auctions(
            count=self._per_batch * self.batches, bids=BIDS, open_auctions=_OPEN_AUCTIONS, seed=seed
        )
        self.folder = folder / f"auctions-{self.batches}-{self._per_batch}-{seed}"
        self.longest_open_bids = BIDS * _OPEN_AUCTIONS  # an auction ends before so many bids have come after it

    @property
    def num_bids(self) -> int:
        """All bids, each of which has one auction: as many rows leave an inner join."""
        return self._auctions.num_bids

    def path(self, stream: str) -> str:
        """Return the folder of "auctions" or "bids"."""
        return str(self.folder / stream)

    def make(self) -> None:
        """Write the files, unless they are there."""
        if (self.folder / "whole").exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        for stream, part, rows in (
            ("auctions", self._auctions.auctions_part, self._per_batch),
            ("bids", self._auctions.bids_part, self._per_batch * BIDS),
        ):
            (self.folder / stream).mkdir(parents=True)
            for batch in range(self.batches):
                path = self.folder / stream / f"{batch:05d}.parquet"
                pq.write_table(_with_flags(part(batch * rows, rows), "auction"), path, compression="none")
                os.utime(path, (batch, batch))  # Spark takes the oldest first
        (self.folder / "whole").touch()


def _with_flags(batch: PunctuatedBatch, key: str) -> pa.Table:
    """Return tuples, and behind them punctuations as rows that have a key alone."""
    marks = len(batch.marks)
    columns = [
        pa.concat_arrays([column, batch.marks.low if name == key else pa.nulls(marks, column.type)])
        for name, column in zip(batch.rows.schema.names, batch.rows.columns, strict=True)
    ]
    is_end = np.concatenate([np.zeros(len(batch), dtype=np.bool_), np.ones(marks, dtype=np.bool_)])
    return pa.Table.from_arrays([*columns, pa.array(is_end)], names=[*batch.rows.schema.names, "is_end"])
