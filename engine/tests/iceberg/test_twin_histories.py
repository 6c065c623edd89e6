"""Random histories of a table that Tideline and Iceberg's Spark runtime change in turns: rows,
columns and their members, partitions, versions, equality deletes, branches and services. A second
table, which Spark changes alone, has the same rows after each step."""

from __future__ import annotations

import pytest

from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_twin import TwinHistory

pytestmark = [pytest.mark.interop, pytest.mark.slow]
_STEPS = 12


@pytest.mark.parametrize("seed", range(3))
def test_both_tables_have_the_same_rows_after_each_step(
    iceberg_peer: IcebergPeer, seed: int
) -> None:
    history = TwinHistory(iceberg_peer, seed)
    for number in range(_STEPS):
        try:
            history.step()
            history.check()
        except Exception as error:
            steps = "\n".join(history.said)
            raise AssertionError(f"step {number} of seed {seed}:\n{steps}") from error
