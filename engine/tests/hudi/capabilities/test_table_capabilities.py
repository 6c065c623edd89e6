"""What a table is, as one value, and what may therefore be done with it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.capabilities.guard import admit
from tideline.hudi.capabilities.look import look_at, read_capabilities
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.capabilities.rules import Facts, refusals_of
from tideline.hudi.capabilities.table_capabilities import TableCapabilities, merging_text
from tideline.hudi.table.properties import PROPERTIES_PATH, update_table_properties
from tideline.hudi.table.table_config import TableConfig, TableType
from tideline.hudi.timeline.known_zone import KnownZone, ZoneBasis
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.fixtures import fixture_table
from tideline.testing.small_table import SmallTable, batch

pytestmark = pytest.mark.usefixtures("version_6")

WRITABLE = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.timeline.timezone": "UTC",
}
MERGING = {
    Permission.MERGE_LOGS,
    Permission.WRITE,
    Permission.COMPACTION,
    Permission.LOG_COMPACTION,
}
LOGGING = MERGING - {Permission.MERGE_LOGS}
CHANGING = {permission for permission in Permission if permission.changes_table}


def refused(**changes: str) -> set[Permission]:
    properties = {name.replace("__", "."): text for name, text in changes.items()}
    return set(refusals_of(Facts(TableConfig(WRITABLE | properties))))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, set()),
        ({"hoodie__compaction__payload__class": "com.acme.Payload"}, MERGING),
        ({"hoodie__record__merge__mode": "CUSTOM"}, MERGING),
        ({"hoodie__record__merge__strategy__id": "00000000-0000-0000-0000-000000000000"}, MERGING),
        ({"hoodie__datasource__write__record__merger__impls": "com.acme.Merger"}, LOGGING),
        ({"hoodie__table__cdc__enabled": "true"}, LOGGING),
        (
            {"hoodie__table__keygenerator__class": "com.acme.SimpleKeyGenerator"},
            LOGGING | {Permission.CLUSTERING},
        ),
        ({"hoodie__table__recordkey__fields": ""}, LOGGING | {Permission.CLUSTERING}),
        ({"hoodie__write__lock__provider": "com.acme.Lock"}, CHANGING),
        ({"hoodie__table__version": "2"}, set(Permission)),
        (
            {"hoodie__table__version": "4"},
            {permission for permission in Permission if permission.changes_table}
            - {Permission.UPGRADE},
        ),
        ({"hoodie__table__base__file__format": "HFILE"}, set(Permission)),
        ({"hoodie__bootstrap__base__path": "s3://a/b"}, CHANGING),
        (
            {"hoodie__table__base__file__format": "orc"},
            LOGGING | {Permission.CLUSTERING, Permission.UPGRADE},
        ),
    ],
)
def test_each_thing_is_refused_only_where_it_matters(
    changes: dict[str, str], expected: set[Permission]
) -> None:
    assert refused(**changes) == expected


@pytest.mark.parametrize("own_type", ["variant", "vector", "blob"])
def test_columns_of_hudis_own_types_are_not_written(own_type: str) -> None:
    inner = {"type": "record", "name": "w", "fields": [], "logicalType": own_type}
    nested = {"type": "array", "items": ["null", inner]}
    held = {"type": "record", "name": "h", "fields": [{"name": "inner", "type": nested}]}
    schema = {"type": "record", "name": "t", "fields": [{"name": "v", "type": ["null", held]}]}
    facts = Facts(TableConfig(WRITABLE), schema_json=json.dumps(schema))
    refused = refusals_of(facts)
    assert set(refused) == LOGGING | {Permission.CLUSTERING, Permission.UPGRADE}
    reason = refused[Permission.WRITE]
    assert (reason.reason, reason.value) == (
        f"columns of Hudi's type {own_type} are read, not written", "v.inner"
    )  # fmt: skip
    # A column of that name is none of that type.
    plain = {"type": "record", "name": "t", "fields": [{"name": own_type, "type": "string"}]}
    assert refusals_of(replace(facts, schema_json=json.dumps(plain))) == {}


@pytest.mark.fixtures
@pytest.mark.parametrize("name", ["variant_cow", "variant_mor_spark", "vector_cow"])
def test_real_tables_of_such_columns_are_left_as_they_are(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    shutil.copytree(fixture_table(f"hudi-common.{name}/data/{name}"), folder)
    lake = LakeTable.open(str(folder))
    before = sorted(folder.rglob("*"))
    for service in ("compaction", "log_compaction", "clustering"):
        with pytest.raises(UnsupportedTableError, match="are read, not written"):
            lake.run(service)
        assert "are read, not written" in str(lake.plan(service).outcome)
    with pytest.raises(UnsupportedTableError, match="are read, not written"):
        admit(lake.hoodie_table, Permission.WRITE)
    capabilities = look_at(StoreLocation.of(folder))
    assert Permission.CLEANING not in capabilities.refusals
    assert sorted(folder.rglob("*")) == before


def test_a_zone_that_is_not_known_keeps_instants_from_being_made() -> None:
    table = SmallTable.in_memory()
    table.write("upsert", batch(range(4), 1))
    not_utc = TableCapabilities(
        "memory://t", TableConfig(WRITABLE), KnownZone(basis=ZoneBasis.NOT_UTC)
    )
    assert not_utc.refusals == {}, "without an example nothing is proven"
    update_table_properties(table.store(), {"hoodie.table.timeline.timezone": "LOCAL"})
    hoodie = table.lake().hoodie_table
    timeline = hoodie.timeline()
    moved = {instant: ms - 5 * 3_600_000 for instant, ms in timeline.made_ms.items()}
    object.__setattr__(timeline, "made_ms", moved)
    capabilities = read_capabilities(hoodie, timeline)
    (declaration,) = capabilities.declarations
    assert declaration.declare == "tideline.timezone"
    assert "timezone of the LakeTable" in declaration.where
    assert set(capabilities.refusals) == CHANGING - {Permission.SAVEPOINT}
    with pytest.raises(ConfigError, match="instants are not UTC"):
        capabilities.require(Permission.CLEANING)


def test_a_table_is_looked_at_without_being_opened_and_nothing_changes() -> None:
    table = SmallTable.in_memory(table_type=TableType.MERGE_ON_READ)
    table.write("upsert", batch(range(4), 1))
    store = table.store()
    update_table_properties(store, {"hoodie.compaction.payload.class": "com.acme.Payload"})
    before = {info.path: (store.get(info.path), info.modified_ms) for info in store.list()}
    capabilities = look_at(table.location, clock=table.clock)
    assert before == {info.path: (store.get(info.path), info.modified_ms) for info in store.list()}
    assert capabilities.custom_merging == "com.acme.Payload"
    assert capabilities.may(Permission.CLEANING) is None
    with pytest.raises(UnsupportedTableError, match="merged in a custom way"):
        capabilities.require(Permission.WRITE)
    shown = json.loads(json.dumps(capabilities.as_json()))
    (write,) = [operation for operation in shown["operations"] if operation["name"] == "write"]
    assert write == {
        "name": "write",
        "may": False,
        "reason": "records are merged in a custom way",
        "path": PROPERTIES_PATH,
        "value": "com.acme.Payload",
        "declare": None,
        "where": None,
        "remedy": "leave it to the engine that writes the table",
    }
    assert shown["merging"]["custom"] == "com.acme.Payload"


def test_rows_that_fill_each_other_up_are_written_unless_in_an_unknown_way() -> None:
    mode = {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    table = SmallTable.in_memory(mode, table_version=9)
    capabilities = look_at(table.location, clock=table.clock)
    assert capabilities.refusals == {}
    assert capabilities.as_json()["merging"]["partial_updates"] == "IGNORE_DEFAULTS"
    assert merging_text(capabilities.config) == "COMMIT_TIME_ORDERING, IGNORE_DEFAULTS"
    update_table_properties(table.store(), dict.fromkeys(mode, "LATER"))
    capabilities = look_at(table.location, clock=table.clock)
    assert capabilities.custom_merging == merging_text(capabilities.config)
    assert "LATER" in str(capabilities.custom_merging)
    for refused in (Permission.WRITE, Permission.COMPACTION, Permission.MERGE_LOGS):
        with pytest.raises(UnsupportedTableError, match="unknown way"):
            capabilities.require(refused)


def of_version(version: str) -> TableCapabilities:
    """What a table says of itself whose properties have this version."""
    table = SmallTable.in_memory()
    store = table.store()
    body = store.get(PROPERTIES_PATH).replace(
        b"table.version=6", b"table.version=%s" % version.encode()
    )
    store.put(PROPERTIES_PATH, body)
    return look_at(table.location, clock=table.clock)


@pytest.mark.parametrize("version", ["3", "5"])
def test_a_table_of_an_earlier_version_is_read_and_not_changed(version: str) -> None:
    capabilities = of_version(version)
    assert not capabilities.is_refused
    assert not capabilities.is_changed
    assert {permission for permission in Permission if capabilities.may(permission) is None} == {
        Permission.READ, Permission.MERGE_LOGS, Permission.CHECK, Permission.UPGRADE,
    }  # fmt: skip
    refusal = capabilities.may(Permission.CLEANING)
    assert refusal is not None
    assert f"version {version} is read, but not changed" in refusal.reason


@pytest.mark.parametrize("version", [8, 9])
def test_a_table_of_a_later_version_is_changed_as_well(version: int) -> None:
    capabilities = look_at(SmallTable.in_memory(table_version=version).location)
    assert capabilities.is_changed
    assert not capabilities.refusals


@pytest.mark.parametrize("version", ["2", "7", "8", "9", "10"])
def test_a_table_of_another_version_says_what_it_is(version: str) -> None:
    capabilities = of_version(version)
    assert capabilities.is_refused
    assert set(capabilities.refusals) == set(Permission)
    shown = capabilities.as_json()
    assert shown["version"] == int(version)
    assert f"version {version} is" in shown["operations"][0]["reason"]
