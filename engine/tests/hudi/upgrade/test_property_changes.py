"""What properties become, as Hudi's own upgrades and downgrades make them."""

from __future__ import annotations

import pytest

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.table.table_config import TableConfig
from tideline.hudi.upgrade.property_changes import changed_properties

MODEL = "org.apache.hudi.common.model."
EVENT_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_ID = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
PAYLOAD_ID = "00000000-0000-0000-0000-000000000000"
BY_PREFIX = "hoodie.record.merge.property."
SIX = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "part",
    "hoodie.table.precombine.field": "ts",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
}
MERGING = {
    "DefaultHoodieRecordPayload": ("EVENT_TIME_ORDERING", {}),
    "EventTimeAvroPayload": ("EVENT_TIME_ORDERING", {}),
    "OverwriteWithLatestAvroPayload": ("COMMIT_TIME_ORDERING", {}),
    "OverwriteNonDefaultsWithLatestAvroPayload": (
        "COMMIT_TIME_ORDERING",
        {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    ),
    "PartialUpdateAvroPayload": (
        "EVENT_TIME_ORDERING",
        {"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"},
    ),
    "AWSDmsAvroPayload": (
        "COMMIT_TIME_ORDERING",
        {
            f"{BY_PREFIX}hoodie.payload.delete.field": "Op",
            f"{BY_PREFIX}hoodie.payload.delete.marker": "D",
        },
    ),
    "debezium.PostgresDebeziumAvroPayload": (
        "EVENT_TIME_ORDERING",
        {
            "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
            f"{BY_PREFIX}hoodie.payload.delete.field": "_change_operation_type",
            f"{BY_PREFIX}hoodie.payload.delete.marker": "d",
            f"{BY_PREFIX}hoodie.write.partial.update.unavailable.value": (
                "__debezium_unavailable_value"
            ),
            "hoodie.table.ordering.fields": "_event_lsn",
        },
    ),
    "debezium.MySqlDebeziumAvroPayload": (
        "EVENT_TIME_ORDERING",
        {
            f"{BY_PREFIX}hoodie.payload.delete.field": "_change_operation_type",
            f"{BY_PREFIX}hoodie.payload.delete.marker": "d",
            "hoodie.table.ordering.fields": "_event_bin_file,_event_pos",
        },
    ),
}
"""What version 9 says instead of each payload class that Hudi ships."""


def changed(properties: dict[str, str], version: int) -> dict[str, str]:
    changes = changed_properties(TableConfig(properties), version)
    return {key: text for key, text in {**properties, **changes}.items() if text is not None}


def with_payload(name: str) -> dict[str, str]:
    return {**SIX, "hoodie.compaction.payload.class": MODEL + name}


def test_version_8_names_kinds_and_keeps_classes() -> None:
    eight = changed(with_payload("OverwriteWithLatestAvroPayload"), 8)
    assert eight["hoodie.table.version"] == "8"
    assert eight["hoodie.table.initial.version"] == "6"
    assert eight["hoodie.timeline.layout.version"] == "2"
    assert eight["hoodie.timeline.path"] == "timeline"
    assert eight["hoodie.timeline.history.path"] == "history"
    assert eight["hoodie.table.keygenerator.type"] == "SIMPLE"
    assert eight["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert eight["hoodie.record.merge.strategy.id"] == COMMIT_ID
    assert eight["hoodie.table.precombine.field"] == "ts"


@pytest.mark.parametrize("name", MERGING)
def test_version_9_says_merge_modes_instead_of_payload_classes(name: str) -> None:
    mode, extras = MERGING[name]
    nine = changed(with_payload(name), 9)
    assert nine["hoodie.record.merge.mode"] == mode
    assert nine["hoodie.table.legacy.payload.class"] == MODEL + name
    assert {key: nine[key] for key in extras} == extras
    assert nine["hoodie.table.ordering.fields"] == extras.get("hoodie.table.ordering.fields", "ts")
    for gone in ("compaction.payload.class", "record.merge.strategy.id", "table.precombine.field"):
        assert f"hoodie.{gone}" not in nine


@pytest.mark.parametrize("name", MERGING)
def test_back_in_version_8_a_payload_merges_again(name: str) -> None:
    mode, extras = MERGING[name]
    eight = changed(changed(with_payload(name), 9), 8)
    is_plain = not extras
    assert eight["hoodie.compaction.payload.class"] == MODEL + name
    assert eight["hoodie.record.merge.mode"] == (mode if is_plain else "CUSTOM")
    by_mode = EVENT_ID if mode.startswith("EVENT") else COMMIT_ID
    assert eight["hoodie.record.merge.strategy.id"] == (by_mode if is_plain else PAYLOAD_ID)
    assert not any(key.startswith(BY_PREFIX) for key in eight)
    ordering = {"debezium.MySqlDebeziumAvroPayload": "_event_seq"}.get(
        name, extras.get("hoodie.table.ordering.fields", "ts")
    )
    assert eight["hoodie.table.precombine.field"] == ordering
    assert "hoodie.table.ordering.fields" not in eight


@pytest.mark.parametrize("name", list(MERGING)[:6])
def test_there_and_back_again_version_6_says_what_it_said(name: str) -> None:
    six = with_payload(name)
    back = changed(changed(six, 9), 6)
    assert {key: back.get(key) for key in six} == six
    added = {key for key in back if key not in six}
    assert added == {
        "hoodie.archivelog.folder", "hoodie.timeline.path", "hoodie.timeline.history.path",
    }  # fmt: skip


def test_a_class_of_its_own_goes_on_merging() -> None:
    six = {**SIX, "hoodie.compaction.payload.class": "com.example.Mine"}
    nine = changed(six, 9)
    assert nine["hoodie.record.merge.mode"] == "CUSTOM"
    assert nine["hoodie.record.merge.strategy.id"] == PAYLOAD_ID
    assert nine["hoodie.compaction.payload.class"] == "com.example.Mine"
    assert changed(nine, 6)["hoodie.compaction.payload.class"] == "com.example.Mine"


def test_a_merger_of_its_own_goes_on_merging() -> None:
    """Hudi names a payload class of such tables as well."""
    merged = {
        "hoodie.record.merge.mode": "CUSTOM",
        "hoodie.record.merge.strategy.id": "1897ef5f-18bc-4557-939c-9d6a8afd1519",
    }
    eight = changed(with_payload("DefaultHoodieRecordPayload"), 8) | merged
    nine = changed(eight, 9)
    assert {key: nine[key] for key in merged} == merged
    back = changed(nine, 8)
    assert {key: back[key] for key in merged} == merged
    assert back["hoodie.compaction.payload.class"] == f"{MODEL}DefaultHoodieRecordPayload"
    with pytest.raises(UnsupportedTableError, match="a class of its own"):
        changed(eight, 6)


def test_no_property_names_the_former_version() -> None:
    nine = changed({**SIX, "hoodie.write.table.version": "6"}, 9)
    assert "hoodie.write.table.version" not in nine


def test_a_delete_marker_of_the_table_is_where_version_9_looks() -> None:
    marker = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "x"}
    nine = changed({**SIX, **marker}, 9)
    assert {name: nine[f"{BY_PREFIX}{name}"] for name in marker} == marker
    eight = changed(nine, 8)
    assert {name: eight[name] for name in marker} == marker


def test_what_earlier_versions_have_no_words_for_is_refused() -> None:
    nine = {**changed(SIX, 9), "hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}
    with pytest.raises(UnsupportedTableError, match="filled up"):
        changed({**nine, "hoodie.table.legacy.payload.class": ""}, 8)
    merged = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.record.merge.strategy.id": "mine"}
    with pytest.raises(UnsupportedTableError, match="a class of its own"):
        changed({**nine, **merged, "hoodie.table.partial.update.mode": ""}, 6)


def test_kinds_of_partition_columns_must_be_known() -> None:
    custom = {**SIX, "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator"}
    with pytest.raises(ConfigError, match="column:SIMPLE"):
        changed(custom, 8)
    typed = {**custom, "hoodie.table.partition.fields": "part:SIMPLE"}
    assert changed(typed, 8)["hoodie.table.keygenerator.type"] == "CUSTOM"


def test_versions_before_6_keep_what_they_say() -> None:
    three = {**SIX, "hoodie.table.version": "3", "hoodie.table.metadata.partitions": "files"}
    three.pop("hoodie.timeline.layout.version")
    six = changed(three, 6)
    assert six["hoodie.table.version"] == "6"
    assert six["hoodie.table.metadata.partitions"] == ""
