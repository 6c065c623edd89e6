"""Random histories of tables that Hudi made, written by Hudi and by us in turn: those of one schema
and every index, and lives from Hudi's SQL and data source with keys and partitions of every type.

`TIDELINE_SEED=<n>,...` runs these seeds alone, `TIDELINE_HISTORIES=<n>` so many (`make histories`:
100).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tideline.testing.hudi_peer import HudiPeerIn
from tideline.testing.life import Life
from tideline.testing.mixed_history import MixedHistory

pytestmark = [pytest.mark.interop, pytest.mark.spark, pytest.mark.slow]

SEEDS = range(4)
SEEDS_OF_LIVES = (10, 12, 24, 30, 7, 33)
"""Both table types, every version, three surfaces, two zones of Java, buckets, a record index."""
UNEXPLAINED = {
    11: "after its clustering made a record index, Hudi's MERGE leaves a row that it should delete"
}
"""Lives that end before their last step, without a known cause."""


def seeds(without_choice: Sequence[int]) -> Sequence[int]:
    if "TIDELINE_SEED" in os.environ:
        return tuple(map(int, os.environ["TIDELINE_SEED"].split(",")))
    if "TIDELINE_HISTORIES" in os.environ:
        return range(int(os.environ["TIDELINE_HISTORIES"]))
    return without_choice


@pytest.mark.parametrize("seed", seeds(SEEDS))
def test_every_reader_sees_the_model_after_every_turn(
    seed: int, tmp_path: Path, spark: SparkSession, hudi_peer_in: HudiPeerIn
) -> None:
    MixedHistory(seed, tmp_path, spark, hudi_peer_in).run()


@pytest.mark.parametrize("seed", seeds(SEEDS_OF_LIVES))
def test_every_reader_sees_the_model_after_every_step_of_a_life(
    seed: int,
    tmp_path: Path,
    spark: SparkSession,
    hudi_peer_in: HudiPeerIn,
    request: pytest.FixtureRequest,
) -> None:
    if seed in UNEXPLAINED:
        request.applymarker(pytest.mark.xfail(reason=UNEXPLAINED[seed], strict=True))
    Life(seed, tmp_path, spark, hudi_peer_in).run()
