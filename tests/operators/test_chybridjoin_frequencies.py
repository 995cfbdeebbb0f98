"""How often keys wait is counted over all tuples of a partition, however few are looked at at once."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import semistream as ss
from semistream.operators import Chybridjoin
from semistream.operators.front_stage import Collecting, FrontStage


def test_a_key_is_counted_in_every_portion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    considered: dict[int, int] = {}
    consider = FrontStage.consider

    def noted(self: FrontStage, codes: np.ndarray, waiting: np.ndarray) -> Collecting | None:
        considered.update(zip(codes.tolist(), waiting.tolist(), strict=True))
        return consider(self, codes, waiting)

    monkeypatch.setattr(FrontStage, "consider", noted)
    table = ss.stage(pa.table({"id": range(50), "v": range(50)}), tmp_path / "r", key="id", page_bytes=1 << 16)
    ids = np.concatenate([np.arange(50).repeat(4), np.full(900, 49)])
    stream = pa.record_batch({"id": ids})
    op = ss.operator("chybridjoin", table, stream.schema, on="id", memory="400KB")
    assert isinstance(op, Chybridjoin)
    assert op._delivery.pair_rows.size < ids.size, "or all tuples are one portion"
    assert op.offer(stream) == ids.size
    assert sum(batch.num_rows for batch in op.drain()) == ids.size
    op.close()
    assert considered == {**dict.fromkeys(range(49), 4), 49: 904}
