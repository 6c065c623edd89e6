"""Tables of Hudi's with every index and columns of every type, written by both engines: queries by
indexes find what those without find, Hudi's and ours.

`TIDELINE_SEED=<n>,...` runs these seeds alone.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tideline.testing.hudi_peer import HudiPeerIn
from tideline.testing.indexed_history import IndexedHistory

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SEEDS = tuple(map(int, os.environ.get("TIDELINE_SEED", "0,1,2,3,4,6").split(",")))


@pytest.mark.parametrize("seed", SEEDS)
def test_queries_by_indexes_find_what_those_without_find(
    seed: int, tmp_path: Path, hudi_peer_in: HudiPeerIn
) -> None:
    IndexedHistory(seed, tmp_path, hudi_peer_in).run()
