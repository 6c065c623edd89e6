"""What a change of version does to a table's properties, a version at a time. Pure.

    3, 4, 5 -> 6   nothing but the version
    6 -> 8         layout of the timeline, merge mode and key generator by kind
    8 -> 9         payload classes become merge modes
    9 -> 8, 8 -> 6 the way back

A table merges its rows after it as before. Hudi differs in one case: of a merge-on-read table with
an ordering column and the payload OverwriteWithLatest it makes one ordered by event time, and other
rows win from then on. Here the later write keeps winning, as in every read before the change.

Source: Hudi's SevenToEightUpgradeHandler, EightToNineUpgradeHandler, NineToEightDowngradeHandler,
EightToSevenDowngradeHandler (1.2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tideline.errors import ConfigError, UnsupportedTableError
from tideline.hudi.table import table_config as keys
from tideline.hudi.table.java_properties import with_changes
from tideline.hudi.table.layout.known_layouts import LAYOUT_VERSION, VERSION
from tideline.hudi.table.layout.version_6 import ARCHIVE_FOLDER, DEFAULT_ARCHIVE_FOLDER
from tideline.hudi.table.layout.version_8 import (
    HISTORY_FOLDER,
    HISTORY_PATH,
    TIMELINE_FOLDER,
    TIMELINE_PATH,
)
from tideline.hudi.table.merge_mode import (
    CUSTOM_MODE,
    MERGED_BY_PAYLOAD,
    PAYLOAD_OF_MODE,
    PAYLOAD_OF_NULLS,
    STRATEGY_OF_MODE,
    MergeMode,
)
from tideline.hudi.table.partial_updates import UNAVAILABLE
from tideline.hudi.table.table_config import LEGACY_PAYLOAD, KeyGeneratorKind, TableConfig

INITIAL_VERSION = "hoodie.table.initial.version"
WRITTEN_AS = "hoodie.write.table.version"
FORMER_STRATEGY_ID = "hoodie.compaction.record.merger.strategy"
"""Another name of the merge strategy, which Hudi reads where the first is not there."""

_VERSIONS = (6, 8, 9)
_PROPERTY = keys.MERGE_PROPERTY
_DELETES = ("hoodie.payload.delete.field", "hoodie.payload.delete.marker")
_DELETE_FIELD = "hoodie.record.merge.property.hoodie.payload.delete.field"
_DELETE_MARKER = "hoodie.record.merge.property.hoodie.payload.delete.marker"
_MODEL = "org.apache.hudi.common.model."
_DEBEZIUM = f"{_MODEL}debezium."
_DEBEZIUM_DELETES = {_DELETE_FIELD: "_change_operation_type", _DELETE_MARKER: "d"}

Changes = Mapping[str, str | None]
"""Properties to set, and those to remove as None."""


@dataclass(frozen=True, slots=True)
class _Translation:
    """What version 9 says instead of a payload class. `ordering` are its own columns, `former` what
    version 8 calls them."""

    mode: MergeMode
    extras: Mapping[str, str]
    ordering: str = ""
    former: str = ""


_EVENT, _COMMIT = MergeMode.EVENT_TIME_ORDERING, MergeMode.COMMIT_TIME_ORDERING
_IGNORE_DEFAULTS = {keys.PARTIAL_UPDATE_MODE: "IGNORE_DEFAULTS"}
_TRANSLATIONS = {
    f"{_MODEL}DefaultHoodieRecordPayload": _Translation(_EVENT, {}),
    f"{_MODEL}EventTimeAvroPayload": _Translation(_EVENT, {}),
    f"{_MODEL}OverwriteWithLatestAvroPayload": _Translation(_COMMIT, {}),
    PAYLOAD_OF_NULLS[_COMMIT]: _Translation(_COMMIT, _IGNORE_DEFAULTS),
    PAYLOAD_OF_NULLS[_EVENT]: _Translation(_EVENT, _IGNORE_DEFAULTS),
    f"{_MODEL}AWSDmsAvroPayload": _Translation(_COMMIT, {_DELETE_FIELD: "Op", _DELETE_MARKER: "D"}),
    f"{_DEBEZIUM}PostgresDebeziumAvroPayload": _Translation(
        _EVENT,
        {
            keys.PARTIAL_UPDATE_MODE: "FILL_UNAVAILABLE",
            keys.UNAVAILABLE_PROPERTY: UNAVAILABLE,
            **_DEBEZIUM_DELETES,
        },
        ordering="_event_lsn",
    ),
    f"{_DEBEZIUM}MySqlDebeziumAvroPayload": _Translation(
        _EVENT, _DEBEZIUM_DELETES, ordering="_event_bin_file,_event_pos", former="_event_seq"
    ),
}
PLAIN_PAYLOADS = frozenset(
    payload
    for payload, translation in _TRANSLATIONS.items()
    if not translation.extras and not translation.ordering
)
"""Payload classes that merge by the mode alone."""


def changed_properties(config: TableConfig, version: int) -> Changes:
    """The changes that make a table of another `version` of it; all at once, for one update.

    Raises UnsupportedTableError for a table that the other version has no words for.
    """
    properties = dict(config.properties)
    at = config.version
    # Writers of Hudi take it for theirs, and would change the version back.
    properties.pop(WRITTEN_AS, None)
    while at != version:
        following = _following(at, version)
        step = _STEPS[at, following]
        properties = with_changes(properties, step(TableConfig(properties, config.table_uri)))
        properties[VERSION] = str(following)
        at = following
    before = config.properties
    gone: Changes = {key: None for key in before if key not in properties}
    return {**gone, **{key: text for key, text in properties.items() if before.get(key) != text}}


def _following(at: int, version: int) -> int:
    """The next version on the way."""
    if at < min(_VERSIONS):
        return min(_VERSIONS)
    step = 1 if version > at else -1
    return _VERSIONS[_VERSIONS.index(at) + step]


def _to_6(_: TableConfig) -> Changes:
    """Their metadata table is of another form."""
    off = dict.fromkeys((keys.METADATA_PARTITIONS, keys.METADATA_PARTITIONS_INFLIGHT), "")
    return {LAYOUT_VERSION: "1", **off}


def _six_to_eight(config: TableConfig) -> Changes:
    _require_partition_types(config)
    return {
        LAYOUT_VERSION: "2",
        TIMELINE_PATH: TIMELINE_FOLDER,
        HISTORY_PATH: HISTORY_FOLDER,
        INITIAL_VERSION: str(config.version),
        FORMER_STRATEGY_ID: None,
        **_key_generator_by_kind(config),
        **_merging_of_8(config),
    }


def _require_partition_types(config: TableConfig) -> None:
    """Later versions take the kind of each partition column from the table."""
    is_custom = config.key_generator is KeyGeneratorKind.CUSTOM
    if is_custom and not all(config.partition_field_types):
        raise ConfigError(
            "the table has a custom key generator and does not say the kinds of its partition "
            f"columns: write {keys.PARTITION_FIELDS} as column:SIMPLE or column:TIMESTAMP first",
            table=config.table_uri or None,
            value=config.properties.get(keys.PARTITION_FIELDS, ""),
        )


def _key_generator_by_kind(config: TableConfig) -> Changes:
    has_class = bool(config.properties.get(keys.KEY_GENERATOR_CLASS))
    return {keys.KEY_GENERATOR_TYPE: config.key_generator.value} if has_class else {}


def _merging_of_8(config: TableConfig) -> Changes:
    payload = config.properties.get(keys.PAYLOAD_CLASS)
    mode = config.known_merge_mode
    if mode is None:
        named = map(config.properties.get, (keys.MERGE_STRATEGY_ID, FORMER_STRATEGY_ID))
        by = MERGED_BY_PAYLOAD if payload else next(filter(None, named), None)
        return {keys.MERGE_MODE: CUSTOM_MODE, keys.MERGE_STRATEGY_ID: by}
    return {
        keys.MERGE_MODE: mode.value,
        keys.PAYLOAD_CLASS: payload or PAYLOAD_OF_MODE[mode],
        keys.MERGE_STRATEGY_ID: STRATEGY_OF_MODE[mode],
    }


def _eight_to_nine(config: TableConfig) -> Changes:
    payload = config.properties.get(keys.PAYLOAD_CLASS, "")
    translated = _TRANSLATIONS.get(payload)
    ordering = (translated.ordering if translated else "") or ",".join(config.ordering_fields)
    changes: dict[str, str | None] = {}
    if ordering:
        changes |= {keys.ORDERING_FIELDS: ordering, keys.PRECOMBINE_FIELD: None}
    given = {name: config.properties[name] for name in _DELETES if name in config.properties}
    changes |= {f"{_PROPERTY}{name}": text for name, text in given.items()}
    if translated is None:
        is_custom = config.properties.get(keys.MERGE_MODE) == CUSTOM_MODE
        return changes if is_custom else {**changes, keys.MERGE_STRATEGY_ID: None}
    changes |= {**translated.extras, keys.PAYLOAD_CLASS: None, LEGACY_PAYLOAD: payload}
    if payload in PLAIN_PAYLOADS and config.properties.get(keys.MERGE_MODE) == CUSTOM_MODE:
        # A merger of its own; Hudi names a payload class all the same.
        return changes
    mode = _mode(config) if payload in PLAIN_PAYLOADS else translated.mode.value
    return {**changes, keys.MERGE_MODE: mode, keys.MERGE_STRATEGY_ID: None}


def _mode(config: TableConfig) -> str:
    return config.properties.get(keys.MERGE_MODE) or config.merge_mode.value


def _nine_to_eight(config: TableConfig) -> Changes:
    payload = config.properties.get(LEGACY_PAYLOAD, "")
    translated = _TRANSLATIONS.get(payload)
    former = translated.former if translated else ""
    ordering = former or ",".join(config.ordering_fields)
    gone = [keys.PARTIAL_UPDATE_MODE, keys.ORDERING_FIELDS, LEGACY_PAYLOAD]
    changes: dict[str, str | None] = dict.fromkeys(gone)
    if ordering:
        changes[keys.PRECOMBINE_FIELD] = ordering
    if translated is None or payload in PLAIN_PAYLOADS:
        _require_no_partial_updates(config)
        given = {name: config.properties.get(f"{_PROPERTY}{name}") for name in _DELETES}
        for name, text in given.items():
            changes |= {name: text, f"{_PROPERTY}{name}": None} if text else {}
        mode = config.known_merge_mode
        if mode is None:
            return {**changes, keys.PAYLOAD_CLASS: payload} if payload else changes
        by_class = {keys.PAYLOAD_CLASS: payload or PAYLOAD_OF_MODE[mode]}
        return {**changes, **by_class, keys.MERGE_STRATEGY_ID: STRATEGY_OF_MODE[mode]}
    return {
        **changes,
        **dict.fromkeys(translated.extras),
        keys.MERGE_MODE: CUSTOM_MODE,
        keys.MERGE_STRATEGY_ID: MERGED_BY_PAYLOAD,
        keys.PAYLOAD_CLASS: payload,
    }


def _require_no_partial_updates(config: TableConfig) -> None:
    """Only payload classes do that in earlier versions."""
    partial = config.properties.get(keys.PARTIAL_UPDATE_MODE)
    if partial:
        raise UnsupportedTableError(
            "rows are filled up from the rows they replace, for which version 8 has no words",
            table=config.table_uri or None,
            value=f"{keys.PARTIAL_UPDATE_MODE}={partial}",
        )


def _eight_to_six(config: TableConfig) -> Changes:
    mode = config.known_merge_mode
    payload = config.properties.get(keys.PAYLOAD_CLASS) or (mode and PAYLOAD_OF_MODE[mode])
    by_merger = config.properties.get(keys.MERGE_MODE) == CUSTOM_MODE and (
        config.properties.get(keys.MERGE_STRATEGY_ID) != MERGED_BY_PAYLOAD
    )
    if by_merger or not payload:
        raise UnsupportedTableError(
            "version 6 has no words for a table whose rows a class of its own merges",
            table=config.table_uri or None,
            value=config.properties.get(keys.MERGE_STRATEGY_ID, ""),
        )
    changes: dict[str, str | None] = {
        LAYOUT_VERSION: "1",
        ARCHIVE_FOLDER: DEFAULT_ARCHIVE_FOLDER,
        INITIAL_VERSION: None,
        keys.MERGE_MODE: None,
        keys.MERGE_STRATEGY_ID: None,
        keys.PAYLOAD_CLASS: payload,
    }
    if config.ordering_fields:
        ordering = ",".join(config.ordering_fields)
        changes |= {keys.PRECOMBINE_FIELD: ordering, keys.ORDERING_FIELDS: None}
    if config.properties.get(keys.KEY_GENERATOR_TYPE):
        by_class = {keys.KEY_GENERATOR_CLASS: config.key_generator.class_name}
        changes |= {**by_class, keys.KEY_GENERATOR_TYPE: None}
    return changes


_STEPS: Mapping[tuple[int, int], Callable[[TableConfig], Changes]] = {
    (3, 6): _to_6,
    (4, 6): _to_6,
    (5, 6): _to_6,
    (6, 8): _six_to_eight,
    (8, 9): _eight_to_nine,
    (9, 8): _nine_to_eight,
    (8, 6): _eight_to_six,
}
