"""Logs of archived commits stay in their file slices for Hudi's readers.

Hudi reads completion times of archived instants only before the first active instant of any action
(CompletionTimeQueryViewV2), and takes later ones that are missing for pending: their logs come
on top of the newest base file of the group.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.compaction.service import COMPACTION
from tideline.hudi.table.table_config import TableType
from tideline.hudi.timeline.instant import Action
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.service_process import local_services
from tideline.testing.small_table import ONCE, SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = [pytest.mark.interop, pytest.mark.slow]

CLEANED = {"hoodie.clean.commits.retained": "1"}


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_a_log_that_was_compacted_and_archived_does_not_come_back(
    tmp_path: Path, hudi_peer: HudiPeer, table_version: int
) -> None:
    table = SmallTable.create(
        StoreLocation.of(tmp_path / "t"),
        table_type=TableType.MERGE_ON_READ,
        table_version=table_version,
    )

    def upsert(value: int, *, key: int = 0) -> None:
        table.write("upsert", batch([key], value))

    def compact() -> None:
        assert local_services(table, ONCE).run(COMPACTION).done

    def clean() -> None:
        assert local_services(table, CLEANED).run(CLEANING).done

    upsert(1)
    upsert(2)
    compact()
    upsert(3)
    compact()
    clean()
    upsert(4)
    upsert(5)
    compact()
    clean()
    upsert(9, key=1)
    opened = open_fresh(table.location)
    written = opened.timeline().of(Action.DELTACOMMIT).completed()
    config = ArchivalConfig(commits_min=2, commits_max=3, compaction_delta_commits=None)
    with opened.lock().acquire(timeout_s=60):
        done = execute_archival(opened, config)
    fourth, fifth, _ = written.instants[-3:]
    assert fourth in done.instants
    assert fifth not in done.instants
    read = hudi_peer.read(str(tmp_path / "t"), {}, ["id", "v"])
    assert {row["id"]: row["v"] for row in read.to_pylist()} == {"k000": 5, "k001": 9}
