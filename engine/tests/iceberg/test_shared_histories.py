"""Random histories of tables in a REST catalog that Tideline, Spark and PyIceberg write by turns,
read by these and by DuckDB after every commit.

`TIDELINE_SEED=<n>` begins with that seed, `TIDELINE_SHARED=<n>` has so many: `make histories` 200.
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("pyiceberg")

from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_rest_server import IcebergRestServer
from tideline.testing.iceberg_shared_history import SharedHistory

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.usefixtures("catalogs_name_folders"),
]

SEED = int(os.environ.get("TIDELINE_SEED", "0"))
HISTORIES = int(os.environ.get("TIDELINE_SHARED", "4"))
_STEPS = 12


@pytest.mark.parametrize("seed", range(SEED, SEED + HISTORIES))
def test_all_read_every_commit_of_all(
    seed: int, iceberg_peer: IcebergPeer, iceberg_rest_server: IcebergRestServer
) -> None:
    history = SharedHistory(iceberg_peer, iceberg_rest_server, seed)
    for number in range(_STEPS):
        try:
            history.step()
        except Exception as error:
            steps = "\n".join(history.said)
            raise AssertionError(f"step {number} of seed {seed}:\n{steps}") from error
    assert len(history.written_by) > 1, history.said
    history.check_at_last()
