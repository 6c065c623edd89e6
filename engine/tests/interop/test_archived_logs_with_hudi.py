"""Logs of archived commits stay in their file slices for Hudi's readers.

Hudi reads completion times of archived instants only before the first active instant of any action
(CompletionTimeQueryViewV2), and takes later ones that are missing for pending: their logs come
on top of the newest base file of the group.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import ArchivalDone, execute_archival
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
    table = created(tmp_path, TableType.MERGE_ON_READ, table_version)

    def clean() -> None:
        assert local_services(table, CLEANED).run(CLEANING).done

    upsert(table, 1)
    upsert(table, 2)
    compact(table)
    upsert(table, 3)
    compact(table)
    clean()
    upsert(table, 4)
    upsert(table, 5)
    compact(table)
    clean()
    upsert(table, 9, key=1)
    opened = open_fresh(table.location)
    written = opened.timeline().of(Action.DELTACOMMIT).completed()
    config = ArchivalConfig(commits_min=2, commits_max=3, compaction_delta_commits=None)
    done = archived_at_once(table, config)
    fourth, fifth, _ = written.instants[-3:]
    assert fourth in done.instants
    assert fifth not in done.instants
    assert read_by(hudi_peer, tmp_path / "t") == {"k000": 5, "k001": 9}


@pytest.mark.parametrize("table_version", [8, 9])
def test_a_log_after_a_restore_does_not_come_back(
    tmp_path: Path, hudi_peer: HudiPeer, table_version: int
) -> None:
    """The restore stays, and is older than what is archived."""
    table = created(tmp_path, TableType.MERGE_ON_READ, table_version)
    upsert(table, 1)
    kept = table.lake().savepoint().instant
    upsert(table, 2)
    table.lake().restore(kept)
    table.lake().delete_savepoint(kept)
    upsert(table, 3)
    upsert(table, 4)
    compact(table)
    for value in (7, 8, 9):
        upsert(table, value, key=1)
    config = ArchivalConfig(commits_min=5, commits_max=5, compaction_delta_commits=None)
    archived_at_once(table, config)
    assert read_by(hudi_peer, tmp_path / "t") == {"k000": 4, "k001": 9}
    assert local_services(table, CLEANED).run(CLEANING).done
    # What the clean deleted holds nothing back.
    assert archived_at_once(table, ArchivalConfig(1, 2, compaction_delta_commits=None)).instants
    assert read_by(hudi_peer, tmp_path / "t") == {"k000": 4, "k001": 9}


@pytest.mark.parametrize("table_type", TableType)
@pytest.mark.parametrize("table_version", [6, 9])
def test_archival_stops_before_a_savepoint_that_hudi_archives_beyond(
    tmp_path: Path, hudi_peer: HudiPeer, table_type: TableType, table_version: int
) -> None:
    """Hudi's own archival goes beyond, and its queries lose the rows."""
    table = created(tmp_path, table_type, table_version)
    upsert(table, 1)
    table.lake().savepoint()
    for value in range(2, 7):
        upsert(table, value, key=value)
    config = ArchivalConfig(1, 2, beyond_savepoint=True, compaction_delta_commits=None)
    archived_at_once(table, config)
    assert read_by(hudi_peer, tmp_path / "t") == dict(table.values())


def created(folder: Path, table_type: TableType, table_version: int) -> SmallTable:
    location = StoreLocation.of(folder / "t")
    return SmallTable.create(location, table_type=table_type, table_version=table_version)


def upsert(table: SmallTable, value: int, *, key: int = 0) -> None:
    table.write("upsert", batch([key], value))


def compact(table: SmallTable) -> None:
    assert local_services(table, ONCE).run(COMPACTION).done


def archived_at_once(table: SmallTable, config: ArchivalConfig) -> ArchivalDone:
    opened = open_fresh(table.location)
    with opened.lock().acquire(timeout_s=60):
        return execute_archival(opened, config)


def read_by(peer: HudiPeer, folder: Path) -> dict[str, int]:
    return {row["id"]: row["v"] for row in peer.read(str(folder), {}, ["id", "v"]).to_pylist()}
