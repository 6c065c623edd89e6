"""Settings given at creation: what they say of the table is done, and the rest is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.capabilities.look import read_capabilities
from tideline.hudi.capabilities.permission import Permission
from tideline.hudi.table.java_properties import parse_properties
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.hudi.table.properties import PROPERTIES_PATH, update_table_properties
from tideline.hudi.table.table_config import KeyGeneratorKind
from tideline.lake_table import LakeTable


def create(folder: Path, **properties: str) -> LakeTable:
    named = {name.replace("__", "."): text for name, text in properties.items()}
    return LakeTable.create(
        str(folder / "t"), record_key="id", partition_by="day", ordering="ts", properties=named
    )


def test_properties_that_describe_the_table_make_it_so(tmp_path: Path) -> None:
    config = LakeTable.create(
        str(tmp_path / "t"),
        record_key="id",
        partition_by="day",
        ordering="ts",
        properties={
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.keygenerator.type": "COMPLEX",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.partitionpath.urlencode": "true",
            "hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING",
            "hoodie.database.name": "lake",
            "hoodie.cleaner.commits.retained": "3",
        },
    ).hoodie_table.config
    assert config.key_generator is KeyGeneratorKind.COMPLEX
    assert config.hive_style
    assert config.url_encode
    assert config.merge_mode is MergeMode.COMMIT_TIME_ORDERING
    assert config.database == "lake"
    assert config.properties["hoodie.clean.commits.retained"] == "3"


def test_hudi_s_writers_see_only_what_they_must_agree_with(tmp_path: Path) -> None:
    shared = {
        "hoodie.bucket.index.num.buckets": "4",
        "hoodie.simple.index.update.partition.path": "false",
        "hoodie.clean.failed.writes.policy": "LAZY",
        "hoodie.payload.delete.field": "op",
        "hoodie.payload.delete.marker": "D",
    }
    ours = {
        "hoodie.clean.commits.retained": "3",
        "hoodie.parquet.small.file.limit": "1000",
        "hoodie.write.lock.wait_time_ms": "70000",
    }
    table = LakeTable.create(
        str(tmp_path / "t"), record_key="id", partition_by="day", properties={**shared, **ours}
    ).hoodie_table
    stored = parse_properties(table.store.get(PROPERTIES_PATH))
    assert shared.items() <= stored.items()
    assert not ours.keys() & stored.keys()
    assert stored["tideline.keeps.hoodie.clean.commits.retained"] == "3"
    config = LakeTable.open(table.uri).hoodie_table.config
    assert {**shared, **ours}.items() <= config.properties.items()
    # An update of the file keeps them apart, and a table of before has them under Hudi's names.
    table.properties.update({"hoodie.clean.commits.retained": "9", "tideline.timezone": "UTC"})
    assert table.config.properties["hoodie.clean.commits.retained"] == "3"
    table.properties.update({"tideline.keeps.hoodie.clean.commits.retained": None})
    assert table.config.properties["hoodie.clean.commits.retained"] == "9"
    assert [
        finding for finding in LakeTable.open(table.uri).check() if finding.check == "properties"
    ] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hoodie.table.recordkey.fields", "other"),
        ("hoodie.datasource.write.precombine.field", "v"),
        ("hoodie.table.type", "MERGE_ON_READ"),
        ("hoodie.populate.meta.fields", "false"),
        ("hoodie.table.cdc.enabled", "true"),
        ("hoodie.record.merge.mode", "CUSTOM"),
        ("hoodie.datasource.write.payload.class", "org.example.MyPayload"),
        ("hoodie.datasource.write.keygenerator.class", "org.example.MyKeys"),
        ("hoodie.keep.max.commits", "3"),
        ("hoodie.compaction.strategy", "org.example.MyStrategy"),
        ("hoodie.payload.delete.field", "gone"),
        ("hoodie.parquet.smal.file.limit", "1"),
    ],
)
def test_what_contradicts_the_definition_or_cannot_be_read_creates_nothing(
    tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(ConfigError):
        create(tmp_path, **{name.replace(".", "__"): text})
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize(
    ("partition_by", "unchecked"), [("day,hour", True), ("day", False), ("", False)]
)
def test_hudi_need_not_doubt_how_keys_of_one_column_are_spelled(
    tmp_path: Path, partition_by: str, unchecked: bool
) -> None:
    lake = LakeTable.create(str(tmp_path / "t"), record_key="id", partition_by=partition_by)
    doubt = "hoodie.write.complex.keygen.validation.enable"
    assert (lake.hoodie_table.config.properties.get(doubt) == "false") is unchecked
    assert [finding for finding in lake.check() if finding.check == "properties"] == []
    lake.hoodie_table.properties.update({doubt: None})
    findings = [
        finding for finding in LakeTable.open(lake.uri).check() if finding.check == "properties"
    ]
    assert [str(finding.severity) for finding in findings] == (["note"] if unchecked else [])


def test_a_typo_that_is_stored_is_reported_and_keeps_no_writer_out(tmp_path: Path) -> None:
    table = create(tmp_path).hoodie_table
    typo = {"hoodie.clean.commit.retained": "3", "hoodie.datasource.hive_sync.enable": "true"}
    update_table_properties(table.store, typo)
    lake = LakeTable.open(table.uri)
    findings = [finding for finding in lake.check() if finding.check == "properties"]
    assert [str(finding.severity) for finding in findings] == ["warning", "warning"]
    assert "did you mean hoodie.clean.commits.retained?" in findings[0].message
    assert read_capabilities(lake.hoodie_table).refusals == {}
    assert lake.plan("cleaning").service.name == "cleaning"


def test_what_only_others_can_honour_stops_writers_but_not_readers(tmp_path: Path) -> None:
    table = create(tmp_path).hoodie_table
    provider = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
    update_table_properties(table.store, {"hoodie.write.lock.provider": provider})
    lake = LakeTable.open(table.uri)
    capabilities = read_capabilities(lake.hoodie_table)
    assert capabilities.may(Permission.READ) is None
    for operation in (Permission.WRITE, Permission.CLEANING, Permission.ROLLBACK):
        with pytest.raises(UnsupportedTableError, match="StorageBasedLockProvider"):
            capabilities.require(operation)
    assert "error" in {str(finding.severity) for finding in lake.check()}


def test_no_table_is_created_that_could_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="only SIMPLE"):
        create(
            tmp_path,
            hoodie__index__type="BUCKET",
            hoodie__index__bucket__engine="CONSISTENT_HASHING",
        )
    assert list(tmp_path.rglob("*")) == []


PARTIAL_UPDATES = "hoodie.table.partial.update.mode"
MARKER = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value"
PAYLOADS = "org.apache.hudi.common.model."


@pytest.mark.parametrize(
    ("ordering", "payload"),
    [("ts", "PartialUpdateAvroPayload"), ("", "OverwriteNonDefaultsWithLatestAvroPayload")],
)
def test_a_table_of_version_9_whose_rows_fill_each_other_up(
    tmp_path: Path, ordering: str, payload: str
) -> None:
    """With the properties that Hudi writes for a table of that payload class."""
    given = {PARTIAL_UPDATES: "ignore_defaults"}
    config = LakeTable.create(
        str(tmp_path / "t"), record_key="id", ordering=ordering, table_version=9, properties=given
    ).hoodie_table.config
    assert config.partial_updates == PartialUpdates(PartialUpdateMode.IGNORE_DEFAULTS)
    assert config.properties[PARTIAL_UPDATES] == "IGNORE_DEFAULTS"
    assert config.properties["hoodie.table.legacy.payload.class"] == PAYLOADS + payload


def test_a_table_of_version_9_with_a_marker(tmp_path: Path) -> None:
    given = {PARTIAL_UPDATES: "FILL_UNAVAILABLE", MARKER: "?"}
    lake = LakeTable.create(str(tmp_path / "t"), record_key="id", table_version=9, properties=given)
    filled = PartialUpdates(PartialUpdateMode.FILL_UNAVAILABLE, "?")
    assert lake.hoodie_table.config.partial_updates == filled
    assert [finding for finding in lake.check() if finding.check == "properties"] == []


@pytest.mark.parametrize(
    ("version", "given", "message"),
    [
        (8, {PARTIAL_UPDATES: "IGNORE_DEFAULTS"}, "version 9"),
        (9, {PARTIAL_UPDATES: "FILL_UNAVAILABLE"}, "needs the marker"),
        (9, {PARTIAL_UPDATES: "LATER"}, "IGNORE_DEFAULTS"),
        (9, {PARTIAL_UPDATES: "IGNORE_DEFAULTS", MARKER: "?"}, "contradicts"),
        (9, {MARKER: "?"}, "contradicts"),
    ],
)
def test_partial_updates_that_make_no_sense_create_nothing(
    tmp_path: Path, version: int, given: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        LakeTable.create(
            str(tmp_path / "t"), record_key="id", table_version=version, properties=given
        )
    assert list(tmp_path.rglob("*")) == []
