"""Random histories of tables that Hudi made, written by Hudi and by us in turn.

`TIDELINE_SEED=<n>` runs one seed alone, `TIDELINE_HISTORIES=<n>` so many (`make histories`: 100).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.testing.hudi_peer import HudiPeerIn
from tideline.testing.mixed_history import MixedHistory

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

SEEDS = range(4)


def seeds() -> tuple[int, ...]:
    if "TIDELINE_SEED" in os.environ:
        return (int(os.environ["TIDELINE_SEED"]),)
    return tuple(range(int(os.environ.get("TIDELINE_HISTORIES", len(SEEDS)))))


@pytest.mark.parametrize("seed", seeds())
def test_every_reader_sees_the_model_after_every_turn(
    seed: int, tmp_path: Path, spark: SparkSession, hudi_peer_in: HudiPeerIn
) -> None:
    MixedHistory(seed, tmp_path, spark, hudi_peer_in).run()
