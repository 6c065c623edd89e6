"""Erasures of published tables: what publications that died or are under way have written."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from tideline.erasure.report import Erasure
from tideline.hudi.table.table_config import PUBLISH_MERGE, TableType
from tideline.iceberg.manifest.manifest_reading import live_paths, manifests_of
from tideline.iceberg.table.catalog_name import DEFAULT_CATALOG, address_variable
from tideline.iceberg.table.catalog_table import CatalogTable
from tideline.iceberg.table.file_system_table import FileSystemTable
from tideline.publication.expiry import remove_unlisted, unlisted_files
from tideline.publication.place import CatalogPlace
from tideline.publication.published_table import PublishedTable
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectInfo, ObjectStore
from tideline.testing.condition_in_arrow import condition_of, conditions_in_arrow
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.files_with_text import files_with_text
from tideline.testing.patience import PATIENCE_S
from tideline.testing.published_rows import published_values
from tideline.testing.small_table import COMPACTED_OFTEN, QUIET, SmallTable, batch
from tideline.testing.table_audit import unexplained_objects

READABLE = {"hoodie.parquet.compression.codec": "uncompressed"}
pytest.importorskip("sqlalchemy")
TYPES = pytest.mark.parametrize("table_type", TableType, ids=str)


class Died(BaseException):
    pass


@pytest.fixture(params=["folder", "catalog"])
def place(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Mapping[str, str]:
    """Properties of a table: where it is published."""
    if request.param == "folder":
        return {}
    uri = f"sqlite:///{tmp_path}/catalog.db"
    monkeypatch.setenv(address_variable(DEFAULT_CATALOG), uri)
    return CatalogPlace.of(uri, "lake.erased").to_properties()


def made(
    folder: Path | None, table_type: TableType, place: Mapping[str, str] | None = None
) -> SmallTable:
    """Published, and written to since; k002 and k003 are to be erased. In memory without a
    folder."""
    merged = {PUBLISH_MERGE: "true"} if table_type is TableType.MERGE_ON_READ else {}
    properties = {**READABLE, **COMPACTED_OFTEN, **merged, **(place or {})}
    if folder is None:
        table = SmallTable.in_memory(properties, table_type=table_type)
    else:
        location = StoreLocation.of(folder)
        table = SmallTable.create(location, properties=properties, table_type=table_type)
    table.write("insert", batch(range(6), 1))
    table.lake().publish()
    table.write("upsert", batch(range(2, 6), 2))
    return table


@contextmanager
def at_the_commit(monkeypatch: pytest.MonkeyPatch, act: Any) -> Iterator[None]:
    """Within, `act` is called once when a publication has written all and is about to commit."""
    acts = [act]

    def interrupted(commit: Any) -> Any:
        def committed(*arguments: Any) -> Any:
            if acts:
                acts.pop()()
            return commit(*arguments)

        return committed

    with monkeypatch.context() as patched:
        for kind in (FileSystemTable, CatalogTable):
            patched.setattr(kind, "commit", interrupted(kind.commit))
        yield


def die() -> None:
    raise Died


def publish_and_die(table: SmallTable, monkeypatch: pytest.MonkeyPatch) -> None:
    with at_the_commit(monkeypatch, die), pytest.raises(Died):
        table.lake().publish()


def erase(table: SmallTable, store: ObjectStore | None = None) -> Erasure:
    with conditions_in_arrow():
        return table.lake(store).erase(condition_of(["k002", "k003"]), prove=True)


def unlisted(table: SmallTable) -> list[str]:
    return [
        unlisted_file.path
        for unlisted_file in unlisted_files(PublishedTable(table.lake().hoodie_table))
    ]


def missing(table: SmallTable) -> list[str]:
    """What snapshots lead to and is not there."""
    place = PublishedTable(table.lake().hoodie_table)
    loaded = place.load()
    assert loaded
    io = place.operations.io
    lists = [snapshot.manifest_list or "" for snapshot in loaded.metadata.snapshots]
    manifests = [
        manifest_file
        for each in loaded.metadata.snapshots
        for manifest_file in manifests_of(io, each)
    ]
    paths = [*lists, *(manifest.path for manifest in manifests)]
    paths += [path for manifest in manifests for path in live_paths(io, manifest)]
    here = {f"{loaded.metadata.location}/{info.path}" for info in table.store().list()}
    return [path for path in paths if path not in here]


@TYPES
def test_what_a_publication_wrote_before_it_died_goes_with_the_erasure(
    table_type: TableType,
    place: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = made(tmp_path / "t", table_type, place)
    publish_and_die(table, monkeypatch)
    assert unlisted(table)
    done = erase(table)
    assert done.before
    named = {unread_file.path for unread_file in done.before.unread}
    assert named and all(path.endswith(".avro") for path in named)
    own = [
        holding_file
        for holding_file in done.before.holding
        if holding_file.path.startswith("metadata/merged/")
    ]
    assert all(holding_file.path.endswith(".rows.parquet") for holding_file in own)
    # One for each of two partitions.
    assert len(own) == (2 if table_type is TableType.MERGE_ON_READ else 0)
    assert done.is_complete
    assert dict(files_with_text(table.store(), ["k002", "k003"])) == {}
    assert unlisted(table) == missing(table) == []
    assert published_values(table.lake()) == table.merged_values()


@TYPES
def test_a_publication_that_is_under_way_begins_anew_after_the_erasure(
    table_type: TableType,
    place: Mapping[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = made(tmp_path / "t", table_type, place)
    reports: list[Erasure] = []
    with at_the_commit(monkeypatch, lambda: reports.append(erase(table))):
        assert table.lake().publish().instant
    assert reports[0].is_complete
    assert dict(files_with_text(table.store(), ["k002", "k003"])) == {}
    assert missing(table) == []
    assert published_values(table.lake()) == table.merged_values()


@TYPES
def test_a_publication_that_begins_during_an_erasure_keeps_its_files(
    table_type: TableType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t", table_type)
    assert erase(table).is_complete
    has_written, may_commit = Event(), Event()

    def wait_to_commit() -> None:
        has_written.set()
        assert may_commit.wait(PATIENCE_S)

    publishing = Thread(target=table.lake().publish)

    def listed_after_it_has_written(place: PublishedTable) -> list[ObjectInfo]:
        table.write("insert", batch([7], 3))
        publishing.start()
        assert has_written.wait(PATIENCE_S)
        return unlisted_files(place)

    def removed_before_it_commits(place: PublishedTable, files: list[ObjectInfo]) -> None:
        remove_unlisted(place, files)
        may_commit.set()
        publishing.join(PATIENCE_S)

    # Nothing but the erasure's own snapshot keeps the publication from committing: no file that was
    # removed has bounds any more.
    with at_the_commit(monkeypatch, wait_to_commit), monkeypatch.context() as patched:
        patched.setattr("tideline.erasure.execute.unlisted_files", listed_after_it_has_written)
        patched.setattr("tideline.erasure.execute.remove_unlisted", removed_before_it_commits)
        erase(table)
    assert not publishing.is_alive()
    assert missing(table) == []
    assert published_values(table.lake()) == table.merged_values()


@TYPES
def test_old_files_of_dead_publications_go_when_cleaning_drops_snapshots(
    table_type: TableType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the last day stay: their publication may be under way."""
    table = made(tmp_path / "t", table_type)
    publish_and_die(table, monkeypatch)
    old = unlisted(table)
    for path in old:
        os.utime(tmp_path / "t" / path, (0, 0))
    table.write("upsert", batch(range(6), 3))
    publish_and_die(table, monkeypatch)
    young = set(unlisted(table)) - set(old)
    assert old and young
    clean(table)
    assert set(unlisted(table)) == young
    assert missing(table) == []
    assert published_values(table.lake()) == table.merged_values()


def clean(table: SmallTable) -> None:
    if table.lake().hoodie_table.config.table_type is TableType.MERGE_ON_READ:
        table.lake().run("compaction", options={"hoodie.compact.inline.max.delta.commits": "1"})
    table.write("upsert", batch(range(6), 4), options=QUIET)
    done = table.lake().run("cleaning", options={"hoodie.clean.commits.retained": "1"})
    assert done.done


@pytest.mark.slow
@TYPES
def test_an_erasure_killed_before_any_write_is_finished_by_the_next(table_type: TableType) -> None:
    for number in itertools.count(1):
        table = made(None, table_type)
        store = FaultyStore(table.store(), FaultPlan(crash_before_write=number))
        try:
            erase(table, store)
        except SimulatedCrash:
            finished_by_the_next(table, f"killed before {store.writes[-1]}, the {number}th")
            table.forget()
            continue
        assert number > 50, "an erasure makes more writes"
        return


def finished_by_the_next(table: SmallTable, when: str) -> None:
    table.fake_clock.advance(3600)
    done = erase(table)
    assert done.is_complete, (when, done)
    assert dict(files_with_text(table.store(), ["k002", "k003"])) == {}, when
    assert table.merged_values() == [("k000", 1), ("k001", 1), ("k004", 2), ("k005", 2)], when
    assert unlisted(table) == missing(table) == [], when
    table.lake().recover()
    table.lake().repair()
    assert table.lake().check(keys=True) == (), when
    assert unexplained(table) == [], when


def unexplained(table: SmallTable) -> list[str]:
    left = unexplained_objects(table.lake().hoodie_table)
    return [path for path in left if not path.startswith("metadata/")]
