"""Archives of either engine are read by the other, and both continue archiving one table."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tideline.hudi.services.archival.config import ArchivalConfig
from tideline.hudi.services.archival.execute import execute_archival
from tideline.hudi.timeline.instant import State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.location import StoreLocation
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.small_table import SmallTable, batch
from tideline.testing.table_audit import open_fresh

pytestmark = [pytest.mark.interop, pytest.mark.slow]

ARCHIVING = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
}
VALUES = {0: 17, 1: 16, 2: 12, 3: 12}


def archive(table: SmallTable) -> list[InstantTime]:
    opened = open_fresh(table.location)
    with opened.lock().acquire(timeout_s=60):
        done = execute_archival(opened, ArchivalConfig(commits_min=2, commits_max=3))
    return [instant.time for instant in done.instants]


def archived_by_hudis_account(peer: HudiPeer, uri: str) -> dict[str, str]:
    """Per archived instant the file ids that its commit wrote."""
    loaded = peer.archived_timeline(uri)
    return {item.time: item.file_ids for item in loaded if item.action == "commit"}


def rows(table: pa.Table) -> list[tuple[str, int]]:
    return sorted(zip(table["id"].to_pylist(), table["v"].to_pylist(), strict=True))


@pytest.mark.parametrize("metadata", ["false", "true"])
@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_both_engines_archive_one_table_and_read_each_others_archives(
    tmp_path: Path, hudi_peer: HudiPeer, metadata: str, table_version: int
) -> None:
    table = SmallTable.create(StoreLocation.of(tmp_path / "t"), table_version=table_version)
    uri = str(tmp_path / "t")
    for version in range(1, 7):
        table.write("upsert", batch(range(8), version))
    ours = archive(table)
    assert len(ours) == 4
    shown = archived_by_hudis_account(hudi_peer, uri)
    assert shown.keys() == {str(time) for time in ours}
    assert all(shown.values())

    metadata_table = {"hoodie.metadata.enable": metadata}
    options = {**ARCHIVING, **metadata_table, **version_options(table_version)}
    for version in range(7, 13):
        hudi_peer.write(uri, batch(range(4), version), operation="upsert", options=options)
    read = open_fresh(table.location).commits.archive()
    numbers = [file.number for file in read.files()]
    if metadata == "false" and table_version == 6:
        assert numbers[-1] == 1
        assert len(numbers) > 1
        assert numbers == list(range(len(numbers), 0, -1))
    commits = {entry.instant.time for entry in read.commits()}
    assert commits >= set(ours)
    for entry in read.entries():
        if entry.instant.state is State.COMPLETED:
            entry.commit_metadata()
    for version in range(13, 17):
        table.write("upsert", batch(range(2), version))
    # Hudi cleans; what cleaning still counts on is not archived, so there is nothing to do before.
    assert archive(table) == []
    cleaning = {**options, "hoodie.archive.automatic": "false"}
    hudi_peer.write(uri, batch(range(1), 17), operation="upsert", options=cleaning)
    again = archive(table) if metadata == "false" else []
    assert again or metadata == "true"
    known = {str(time) for time in (*ours, *again)}
    assert {item.time for item in hudi_peer.archived_timeline(uri)} >= known
    active = {instant.time for instant in open_fresh(table.location).timeline().completed()}
    found = {entry.instant.time for entry in open_fresh(table.location).commits.archive().commits()}
    assert not active & found
    expected = sorted([(f"k{n:03d}", VALUES.get(n, 6)) for n in range(8)])
    assert table.values() == expected
    assert rows(hudi_peer.read(uri)) == expected
    assert rows(hudi_peer.read_with_hudi_rs(uri)) == expected
