"""Reading, checking, recovering and changing `hoodie.properties`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from tideline.errors import (
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from tideline.hudi.table.properties import (
    BACKUP_PATH,
    PROPERTIES_PATH,
    format_properties,
    load_table_config,
    parse_properties,
    table_checksum,
    update_table_properties,
)
from tideline.storage.memory.store import MemoryStore
from tideline.storage.object_store import AlreadyExists, Changed, Written
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash

PROPERTIES = {
    "hoodie.table.name": "orders",
    "hoodie.database.name": "shop",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "id",
}
SIGNED = PROPERTIES | {"hoodie.table.checksum": table_checksum(PROPERTIES)}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    name = uuid.uuid4().hex
    yield MemoryStore(name)
    MemoryStore.forget(name)


def body_of(properties: dict[str, str]) -> bytes:
    return format_properties(properties, updated_at_ms=0)


def test_checksum_is_that_of_hudi() -> None:
    assert table_checksum({"hoodie.table.name": "hudi-v6-table-mor_table"}) == "1066950656"


def test_reads_a_sound_file(store: MemoryStore) -> None:
    store.put(PROPERTIES_PATH, body_of(SIGNED))
    assert load_table_config(store).properties == SIGNED


def test_reads_a_file_without_checksum(store: MemoryStore) -> None:
    store.put(PROPERTIES_PATH, body_of(PROPERTIES))
    assert load_table_config(store).properties == PROPERTIES


@pytest.mark.parametrize(
    "broken",
    [
        None,
        b"",
        b"hoodie.table.name=orders\n",
        body_of(PROPERTIES | {"hoodie.table.checksum": "1"}),
        b"hoodie.table.name=\\u12",
        body_of(SIGNED)[:-40],
    ],
    ids=["missing", "empty", "cut short", "wrong checksum", "malformed", "no version"],
)
def test_takes_the_backup_when_the_file_is_unsound(
    store: MemoryStore, broken: bytes | None
) -> None:
    if broken is not None:
        store.put(PROPERTIES_PATH, broken)
    store.put(BACKUP_PATH, body_of(SIGNED))
    assert load_table_config(store).properties == SIGNED


@pytest.mark.parametrize("broken", [b"", body_of(PROPERTIES | {"hoodie.table.checksum": "1"})])
def test_unsound_without_a_backup_is_corrupt(store: MemoryStore, broken: bytes) -> None:
    store.put(PROPERTIES_PATH, broken)
    with pytest.raises(CorruptTableError, match="unreadable") as caught:
        load_table_config(store)
    assert caught.value.table == store.uri
    assert caught.value.path == PROPERTIES_PATH


def test_a_timeline_without_properties_is_corrupt(store: MemoryStore) -> None:
    store.put(".hoodie/20250101000000000.commit", b"{}")
    with pytest.raises(CorruptTableError, match="missing"):
        load_table_config(store)


def test_no_table_at_all_is_not_found(store: MemoryStore) -> None:
    store.put(".hoodie/.locks/table_lock.json", b"{}")
    with pytest.raises(ObjectNotFoundError, match="no Hudi table here"):
        load_table_config(store)


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("2", "version 2 is too old"),
        ("7", "version 7 is not supported: Tideline reads versions 3, 4, 5, 6, 8, 9"),
        ("8", "version 8 is not supported with this timeline layout: it goes with layout 2"),
        ("9", "version 9 is not supported with this timeline layout"),
        ("10", "version 10 is not supported"),
        ("", "version 0 is too old"),
    ],
)
def test_other_versions_are_refused_by_name(store: MemoryStore, version: str, says: str) -> None:
    store.put(PROPERTIES_PATH, body_of(SIGNED | {"hoodie.table.version": version}))
    with pytest.raises(UnsupportedTableError, match=says):
        load_table_config(store)


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("hoodie.table.type", "COPY_ON_READ", CorruptTableError),
        ("hoodie.table.version", "six", CorruptTableError),
        ("hoodie.table.base.file.format", "HFILE", UnsupportedTableError),
        ("hoodie.timeline.layout.version", "2", UnsupportedTableError),
    ],
)
def test_what_cannot_be_read_is_refused(
    store: MemoryStore, key: str, value: str, error: type[Exception]
) -> None:
    store.put(PROPERTIES_PATH, body_of(SIGNED | {key: value}))
    with pytest.raises(error, match=value):
        load_table_config(store)


def test_an_update_sets_removes_and_signs(store: MemoryStore) -> None:
    store.put(PROPERTIES_PATH, body_of(PROPERTIES | {"old": "1"}))
    store.put(".hoodie/.hoodie.properties.crc", b"stale")
    config = update_table_properties(store, {"new": "a:b", "old": None, "absent": None})
    expected = SIGNED | {"new": "a:b"}
    assert config.properties == expected
    assert parse_properties(store.get(PROPERTIES_PATH)) == expected
    assert [info.path for info in store.list()] == [PROPERTIES_PATH]


def test_an_update_that_changes_nothing_writes_nothing(store: MemoryStore) -> None:
    before = store.put(PROPERTIES_PATH, body_of(SIGNED)).version
    update_table_properties(store, {"hoodie.table.version": "6"})
    assert store.get_versioned(PROPERTIES_PATH).version == before


def test_an_update_first_recovers_from_the_backup(store: MemoryStore) -> None:
    store.put(BACKUP_PATH, body_of(SIGNED))
    assert update_table_properties(store, {"new": "1"}).properties == SIGNED | {"new": "1"}
    assert store.head(BACKUP_PATH) is None


def test_an_update_never_trusts_an_unsound_backup(store: MemoryStore) -> None:
    store.put(PROPERTIES_PATH, body_of(SIGNED))
    store.put(BACKUP_PATH, b"hoodie.table.name=other")
    assert update_table_properties(store, {"new": "1"}).properties == SIGNED | {"new": "1"}


def test_two_updates_at_once_are_a_conflict(store: MemoryStore) -> None:
    class Racing(MemoryStore):
        def put_if_absent(
            self, path: str, body: bytes, *, token: str | None = None
        ) -> Written | AlreadyExists:
            MemoryStore.put(self, path, b"another writer's backup")
            return super().put_if_absent(path, body, token=token)

    racing = Racing(store.uri.removeprefix("memory://"))
    racing.put(PROPERTIES_PATH, body_of(SIGNED))
    with pytest.raises(ConflictError, match="another writer"):
        update_table_properties(racing, {"new": "1"})


def lay_out(store: MemoryStore, *, from_backup: bool) -> None:
    store.put(PROPERTIES_PATH, b"half" if from_backup else body_of(SIGNED))
    if from_backup:
        store.put(BACKUP_PATH, body_of(SIGNED))
    else:
        store.delete(BACKUP_PATH)


@pytest.mark.parametrize("from_backup", [False, True])
def test_a_crash_at_any_step_leaves_the_old_or_the_new_properties(
    store: MemoryStore, from_backup: bool
) -> None:
    new = SIGNED | {"new": "1"}
    lay_out(store, from_backup=from_backup)
    counting = FaultyStore(store)
    update_table_properties(counting, {"new": "1"})
    writes = range(1, len(counting.writes) + 1)
    plans = [FaultPlan(crash_before_write=number) for number in writes]
    plans += [FaultPlan(crash_after_write=number) for number in writes]
    seen = []
    for plan in plans:
        lay_out(store, from_backup=from_backup)
        with pytest.raises(SimulatedCrash):
            update_table_properties(FaultyStore(store, plan), {"new": "1"})
        left = load_table_config(store).properties
        assert left in (SIGNED, new)
        seen.append(left == new)
        assert update_table_properties(store, {"new": "1"}).properties == new
        assert load_table_config(store).properties == new
        assert store.head(BACKUP_PATH) is None
    assert {False, True} == set(seen)


def test_a_half_written_file_is_noticed_and_the_backup_kept(store: MemoryStore) -> None:
    class Halving(MemoryStore):
        def put_if_match(self, path: str, body: bytes, *, version: str) -> Written | Changed:
            return super().put_if_match(path, body[: len(body) // 2], version=version)

    MemoryStore.put(store, PROPERTIES_PATH, body_of(SIGNED))
    with pytest.raises(CorruptTableError, match="backup is in place"):
        update_table_properties(Halving(store.uri.removeprefix("memory://")), {"new": "1"})
    assert load_table_config(store).properties == SIGNED


def test_an_update_to_an_unsupported_version_is_refused_before_writing(
    store: MemoryStore,
) -> None:
    store.put(PROPERTIES_PATH, body_of(SIGNED))
    with pytest.raises(UnsupportedTableError, match="version 10"):
        update_table_properties(store, {"hoodie.table.version": "10"})
    assert load_table_config(store).version == 6


@pytest.mark.parametrize("version", ["3", "5"])
def test_properties_of_a_version_that_is_only_read_do_not_change(
    store: MemoryStore, version: str
) -> None:
    older = {"hoodie.table.version": version}
    store.put(PROPERTIES_PATH, body_of(SIGNED | older))
    store.put(".hoodie/.hoodie.properties.crc", b"")
    before = {info.path: store.get(info.path) for info in store.list()}
    assert load_table_config(store).version == int(version)
    for change in ({"a": "b"}, {"hoodie.table.version": "6"}, {}):
        with pytest.raises(UnsupportedTableError, match="read, but not changed"):
            update_table_properties(store, change)
    assert {info.path: store.get(info.path) for info in store.list()} == before
