"""A writer of ours and one of a peer's write one table of a real REST catalog at the same moment,
each in a process of its own, while some answers of the catalog get lost."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.rest import RestCatalog

import tideline
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_rest_server import IcebergRestServer
from tideline.testing.live_iceberg_writers import (
    ACKNOWLEDGED,
    COLUMNS,
    IN_DOUBT,
    PARTS,
    REFUSED,
    Attempt,
    LiveJob,
    SparkWriter,
    attempts_in,
    what_is_wrong,
    write_live,
    write_live_here,
)
from tideline.testing.one_at_a_time import one_at_a_time

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.usefixtures("catalogs_name_folders"),
]

COMMITS = 15
COMMITS_OF_SHARED_FILES = 8
LOST_EVERY = 9
JOIN_S = 100


class Losing:
    """Every ninth answer to a commit gets lost; `lost` are so many."""

    def __init__(self) -> None:
        self.lost = self._commits = 0

    def __call__(self, method: str, path: str) -> bool:
        if method != "POST" or "/tables/" not in path or path.endswith("/metrics"):
            return False
        self._commits += 1
        is_lost = self._commits % LOST_EVERY == 0
        self.lost += is_lost
        return is_lost


def created(uri: str, name: str, mode: str) -> IcebergLakeTable:
    modes = {f"write.{kind}.mode": mode for kind in ("delete", "merge", "update")}
    RestCatalog("test", uri=uri).create_namespace_if_not_exists(name.partition(".")[0])
    return tideline.create_iceberg(
        name, COLUMNS, key="id", partition_by="part", format_version=2, properties=modes,
        catalog=uri,
    )  # fmt: skip


def written_at_once(
    uri: str,
    name: str,
    folder: Path,
    peer: IcebergPeer | None,
    commits: int = COMMITS,
    given: Sequence[tuple[int, ...]] = ((), ()),
) -> list[list[Attempt]]:
    """Both writers' attempts, ours first; without a `peer` the other one is PyIceberg."""
    diaries = [folder / "ours", folder / "theirs"]
    jobs = [LiveJob(n, commits, diaries[n], diaries[1 - n], 42, given[n]) for n in (0, 1)]
    kinds = ["tideline"] if peer else ["tideline", "pyiceberg"]
    start = multiprocessing.get_context("spawn").Process
    processes = [
        start(target=write_live_here, args=(kind, uri, name, job))
        for kind, job in zip(kinds, jobs, strict=False)
    ]
    try:
        for process in processes:
            process.start()
        if peer:
            write_live(SparkWriter(peer, uri, name), jobs[1])
        ends_s = time.monotonic() + JOIN_S
        while time.monotonic() < ends_s and all(not process.exitcode for process in processes):
            if not any(process.is_alive() for process in processes):
                break
            time.sleep(0.1)
        assert [process.exitcode for process in processes] == [0 for _ in processes]
    finally:
        for process in processes:
            process.kill()
    return [attempts_in(diary) for diary in diaries]


def authors_in_line(
    table: IcebergLakeTable, uri: str, name: str, *, given: int = 0
) -> list[tuple[int, float]]:
    """Of each snapshot after the first `given`, oldest first, whose ids it changes, and its time.
    Each snapshot has the one before as its parent."""
    snapshots = sorted(table.snapshots, key=lambda snapshot: snapshot.sequence_number)
    parents = [snapshot.parent_snapshot_id for snapshot in snapshots]
    assert parents == [None, *(snapshot.snapshot_id for snapshot in snapshots[:-1])]
    assert [s.sequence_number for s in snapshots] == list(range(1, len(snapshots) + 1))
    assert table.current_snapshot is not None
    assert table.current_snapshot.snapshot_id == snapshots[-1].snapshot_id
    theirs = RestCatalog("test", uri=uri).load_table(name)
    found: list[tuple[int, float]] = []
    before: set[tuple[int, int]] = set()
    for place, snapshot in enumerate(snapshots):
        read = theirs.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist()
        now = {(row["id"], row["attempt"]) for row in read}
        authors = {number % 2 for number, _ in now ^ before}
        before = now
        if place < given:
            continue
        assert len(authors) == 1, f"snapshot {snapshot.snapshot_id} changes rows of both, or none"
        found.append((authors.pop(), float(snapshot.timestamp_ms)))
    return found


def outcomes_of(both: list[list[Attempt]]) -> list[dict[str, int]]:
    """How often each writer was answered what."""
    return [
        {outcome: sum(entry.outcome == outcome for entry in attempts)
         for outcome in (ACKNOWLEDGED, REFUSED, IN_DOUBT)}
        for attempts in both
    ]  # fmt: skip


def assert_read_alike(
    table: IcebergLakeTable,
    uri: str,
    name: str,
    peer: IcebergPeer,
    both: list[list[Attempt]],
) -> None:
    """Every reader sees what the diaries say."""
    attempts = [entry for each in both for entry in each]
    location = table.table.loaded.metadata_location.removeprefix("file://").removeprefix("file:")
    readers: dict[str, pa.Table] = {
        "Tideline": table.to_arrow(),
        "PyIceberg": RestCatalog("test", uri=uri).load_table(name).scan().to_arrow(),
        "DuckDB": peer.duckdb_read(location),
    }
    for reader, rows in readers.items():
        assert what_is_wrong(attempts, rows) == [], f"{reader}: {outcomes_of(both)}"
    assert table.check() == ()


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("kind", ["spark", "pyiceberg"])
def test_both_writers_keep_what_they_were_promised(
    kind: str,
    mode: str,
    tmp_path: Path,
    iceberg_peer: IcebergPeer,
    iceberg_rest_server: IcebergRestServer,
) -> None:
    name = f"live_{kind}.{mode.replace('-', '_')}"
    losing = Losing()
    with one_at_a_time(iceberg_rest_server.uri, losing) as uri:
        table = created(uri, name, mode)
        spark = iceberg_peer if kind == "spark" else None
        both = written_at_once(uri, name, tmp_path, spark)
    uri = iceberg_rest_server.uri
    table = tideline.open_iceberg(name, catalog=uri)
    authors = authors_in_line(table, uri, name)
    crossed = [
        sum(any(e.began_ms < at < e.ended_ms for e in attempts)
            for author, at in authors if author != number)
        for number, attempts in enumerate(both)
    ]  # fmt: skip
    said = outcomes_of(both)
    assert_read_alike(table, uri, name, iceberg_peer, both)
    turns = sum(a != b for (a, _), (b, _) in pairwise(authors))
    assert turns >= COMMITS // 2, authors
    assert sum(crossed) >= 3, crossed
    assert losing.lost >= 2
    print(said, f"commits within the other's: {crossed}, lost answers: {losing.lost}")


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("kind", ["spark", "pyiceberg"])
def test_rows_of_both_that_lie_in_one_file(
    kind: str,
    mode: str,
    tmp_path: Path,
    iceberg_peer: IcebergPeer,
    iceberg_rest_server: IcebergRestServer,
) -> None:
    """Each changes its own rows of a file, and the other's in it stay as they are."""
    name = f"shared_{kind}.{mode.replace('-', '_')}"
    given = tuple(tuple(range(-40 + number, 0, 2)) for number in (0, 1))
    ids = sorted(given[0] + given[1])
    seeds = pa.table(
        [ids, [PARTS[n // 2 % 2] for n in ids], [n % 2 for n in ids]], schema=COLUMNS
    )  # fmt: skip
    with one_at_a_time(iceberg_rest_server.uri, Losing()) as uri:
        table = created(uri, name, mode)
        table.append(seeds)
        assert table.files().num_rows == len(PARTS)
        now_ms = time.time() * 1000
        for number, diary in enumerate(("ours", "theirs")):
            before, after = dict.fromkeys(given[number]), dict.fromkeys(given[number], number)
            first = Attempt("append", before, after, ACKNOWLEDGED, now_ms, now_ms)
            (tmp_path / diary).write_text(first.line, encoding="utf-8")
        spark = iceberg_peer if kind == "spark" else None
        both = written_at_once(uri, name, tmp_path, spark, COMMITS_OF_SHARED_FILES, given)
    uri = iceberg_rest_server.uri
    table = tideline.open_iceberg(name, catalog=uri)
    authors = [author for author, _ in authors_in_line(table, uri, name, given=1)]
    assert_read_alike(table, uri, name, iceberg_peer, both)
    assert min(authors.count(0), authors.count(1)) >= COMMITS_OF_SHARED_FILES - 2, authors
    print(outcomes_of(both), authors)
