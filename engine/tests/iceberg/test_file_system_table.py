"""Tables that are folders: which metadata file is the newest, and how the next one comes to be."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping

import pytest

from tideline.errors import (
    ConfigError,
    CorruptTableError,
    ObjectNotFoundError,
    StorageUnavailableError,
    UnsupportedTableError,
)
from tideline.iceberg.metadata.metadata_update import (
    AssertRefSnapshotId,
    AssertTableUuid,
    SetProperties,
)
from tideline.iceberg.table.file_system_table import HINT_PATH, FileSystemTable
from tideline.iceberg.table.open_table import IcebergTable
from tideline.iceberg.table.table_operations import Committed, Conflicted
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.stepping_store import Step, SteppingStore


def table(properties: Mapping[str, str] | None = None) -> tuple[FileSystemTable, ObjectStore]:
    model = IcebergModel.create(properties=properties)
    return model.operations(), model.location.open()


def commit(operations: FileSystemTable, **properties: str) -> object:
    return operations.commit(operations.load(), (), (SetProperties(properties),))


def versions(store: ObjectStore) -> list[str]:
    names = (info.path.rpartition("/")[2] for info in store.list("metadata"))
    return sorted(name for name in names if name.startswith("v") and "json" in name)


def test_commits_count_upwards_and_log_what_they_replace() -> None:
    operations, store = table()
    first = operations.load()
    for number in range(3):
        assert isinstance(commit(operations, number=str(number)), Committed)
    loaded = operations.load()
    assert loaded.version == 4
    assert loaded.metadata.properties["number"] == "2"
    assert store.get(HINT_PATH) == b"4"
    location = first.metadata.location
    assert [entry.metadata_file for entry in loaded.metadata.metadata_log] == [
        f"{location}/metadata/v{number}.metadata.json" for number in (1, 2, 3)
    ]
    assert loaded.metadata_location == f"{location}/metadata/v4.metadata.json"


@pytest.mark.parametrize("hint", [b"2", b"1\n", b"", b"seventeen", b"99", b"9" * 999, None])
def test_the_hint_may_lag_lie_or_be_absent(hint: bytes | None) -> None:
    operations, store = table()
    commit(operations, a="1")
    commit(operations, a="2")
    if hint is None:
        store.delete(HINT_PATH)
    else:
        store.put(HINT_PATH, hint)
    loaded = operations.load()
    assert (loaded.version, loaded.metadata.properties["a"]) == (3, "2")
    assert isinstance(commit(operations, a="3"), Committed)
    assert store.get(HINT_PATH) == b"4"


def test_compressed_metadata_is_read_and_written() -> None:
    operations, store = table({"write.metadata.compression-codec": "gzip"})
    assert isinstance(commit(operations, a="1"), Committed)
    body = store.get("metadata/v2.gz.metadata.json")
    assert json.loads(gzip.decompress(body))["properties"]["a"] == "1"
    old = operations.load()
    store.put("metadata/v3.metadata.json.gz", old.metadata.to_bytes(is_gzip=True))
    assert operations.load().version == 3
    plain = {"write.metadata.compression-codec": "none"}
    assert isinstance(operations.commit(operations.load(), (), (SetProperties(plain),)), Committed)
    assert "v4.metadata.json" in versions(store)


def test_a_version_under_another_codec_is_a_conflict() -> None:
    operations, store = table()
    base = operations.load()
    store.put("metadata/v2.gz.metadata.json", base.metadata.to_bytes(is_gzip=True))
    outcome = operations.commit(base, (), (SetProperties({"a": "1"}),))
    assert isinstance(outcome, Conflicted)
    assert versions(store) == ["v1.metadata.json", "v2.gz.metadata.json"]


def test_of_two_commits_on_one_version_one_wins() -> None:
    operations, _ = table()
    base = operations.load()
    assert isinstance(operations.commit(base, (), (SetProperties({"a": "1"}),)), Committed)
    outcome = operations.commit(base, (), (SetProperties({"a": "2"}),))
    assert isinstance(outcome, Conflicted)
    assert operations.load().metadata.properties["a"] == "1"


def test_a_writer_that_overslept_does_not_fill_a_gap() -> None:
    """Its version was taken, and its metadata file removed again as an old one."""
    properties = {
        "write.metadata.previous-versions-max": "2",
        "write.metadata.delete-after-commit.enabled": "true",
    }
    model = IcebergModel.create(properties=properties)
    others = model.operations()

    def before(step: Step) -> None:
        if step.method == "put_if_absent":
            for number in range(6):
                assert isinstance(commit(others, a=str(number)), Committed)

    store = model.location.open()
    sleeper = FileSystemTable(model.location, store=SteppingStore(store, before))
    assert versions(store) == ["v1.metadata.json"]
    outcome = commit(sleeper, a="late")
    assert isinstance(outcome, Conflicted)
    assert versions(store) == [f"v{number}.metadata.json" for number in (5, 6, 7)]
    assert others.load().metadata.properties["a"] == "5"


def test_the_log_is_as_long_as_configured_and_old_files_are_deleted_on_request() -> None:
    kept, store = table({"write.metadata.previous-versions-max": "2"})
    for number in range(5):
        commit(kept, a=str(number))
    assert len(kept.load().metadata.metadata_log) == 2
    assert len(versions(store)) == 6
    broken, _ = table({"write.metadata.previous-versions-max": "few"})
    with pytest.raises(ConfigError, match="previous-versions-max"):
        commit(broken, a="1")


def test_requirements_are_held_against_what_was_loaded() -> None:
    operations, store = table()
    base = operations.load()
    for requirement in (AssertTableUuid("another"), AssertRefSnapshotId("main", 7)):
        assert isinstance(operations.commit(base, (requirement,), ()), Conflicted)
    assert versions(store) == ["v1.metadata.json"]


def test_a_failing_hint_does_not_fail_a_commit() -> None:
    model = IcebergModel.create()

    def before(step: Step) -> None:
        if step == Step("put", HINT_PATH):
            raise StorageUnavailableError("read-only")

    store = model.location.open()
    operations = FileSystemTable(model.location, store=SteppingStore(store, before))
    assert isinstance(commit(operations, a="1"), Committed)
    assert store.get(HINT_PATH) == b"1"
    assert operations.load().version == 2


def test_metadata_that_goes_between_the_look_and_the_read_is_looked_for_again() -> None:
    model = IcebergModel.create()
    others = model.operations()
    store = model.location.open()
    looked = False

    def before(step: Step) -> None:
        nonlocal looked
        if step == Step("get", "metadata/v1.metadata.json") and not looked:
            looked = True
            commit(others, a="1")
            store.delete("metadata/v1.metadata.json")

    reader = FileSystemTable(model.location, store=SteppingStore(store, before))
    assert reader.load().version == 2


def test_what_is_no_such_table_is_named() -> None:
    empty = StoreLocation.of("memory://nothing-here/table")
    with pytest.raises(ObjectNotFoundError, match="no Iceberg table"):
        FileSystemTable(empty).load()
    operations, store = table()
    body = store.get("metadata/v1.metadata.json")
    store.delete("metadata/v1.metadata.json")
    store.put("metadata/00001-c0ffee.metadata.json", body)
    with pytest.raises(UnsupportedTableError, match="catalog"):
        operations.load()
    store.put("metadata/v2.metadata.json", body[:100])
    with pytest.raises(CorruptTableError, match=r"v2\.metadata\.json"):
        operations.load()


def test_a_metadata_folder_elsewhere_is_refused() -> None:
    operations, _ = table({"write.metadata.path": "memory://elsewhere/metadata"})
    with pytest.raises(UnsupportedTableError, match=r"write\.metadata\.path"):
        commit(operations, a="1")


def test_an_unreachable_store_is_no_missing_table() -> None:
    model = IcebergModel.create()
    dead = FaultyStore(model.location.open(), FaultPlan(unavailable_calls=frozenset(range(9))))
    with pytest.raises(StorageUnavailableError):
        FileSystemTable(model.location, store=dead).load()


def test_the_facade_refreshes_on_request() -> None:
    model = IcebergModel.create()
    opened = IcebergTable.open(model.location.uri)
    model.append(range(3))
    assert opened.metadata.snapshot() is None
    assert opened.refresh().snapshot() is not None
    assert opened.loaded.version == 2
