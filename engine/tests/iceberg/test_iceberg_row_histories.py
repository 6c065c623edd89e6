"""Random histories of writes to Iceberg tables: after each the table has the rows of a model."""

from __future__ import annotations

import uuid

import pytest

from tideline.testing.iceberg_row_history import PLACEMENTS, RowHistory

COPY, MERGE = "copy-on-write", "merge-on-read"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("version", "mode"), [(1, COPY), (2, COPY), (2, MERGE), (3, COPY), (3, MERGE)]
)
def test_histories_of_writes_give_the_rows_of_a_model(version: int, mode: str, seed: int) -> None:
    history = started(version, mode, seed)
    for _ in range(8):
        history.step()
    assert history.table.check() == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 40))
@pytest.mark.parametrize("version", [1, 2, 3])
def test_long_histories_of_writes(version: int, seed: int) -> None:
    history = started(version, (COPY, MERGE)[seed // 2 % 2], seed)
    for _ in range(25):
        history.step()
    assert history.table.check() == ()


def started(version: int, mode: str, seed: int) -> RowHistory:
    uri = f"memory://{uuid.uuid4().hex}/table"
    placement = seed % len(PLACEMENTS)
    return RowHistory(uri, version=version, mode=mode, placement=placement, seed=f"{mode} {seed}")
