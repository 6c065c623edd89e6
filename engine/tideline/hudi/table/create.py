"""Creating a table: one conditional write of `hoodie.properties`.

A table is that one object; every other one comes with the first commit. Two creators race for it
and exactly one wins. Dying before the write leaves nothing, dying after it an empty table.
The properties are those that Hudi writes for the table's version: of version 6 those of 0.14, which
1.x reads as well, with the key generator as a class and the merge mode as a payload class.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pyarrow as pa

from tideline.clock import Clock
from tideline.errors import ConfigError, InvalidDataError, TableExistsError
from tideline.hudi.table import table_config as keys
from tideline.hudi.table.agreement import check_agreement
from tideline.hudi.table.avro_schema import COLUMN_NAMES, is_column_name
from tideline.hudi.table.java_properties import format_properties
from tideline.hudi.table.kept_settings import own_names, stored_name
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION, layout_of_new
from tideline.hudi.table.layout.table_layout import PropertyRules
from tideline.hudi.table.merge_mode import (
    PAYLOAD_OF_MODE,
    PAYLOAD_OF_NULLS,
    STRATEGY_OF_MODE,
    MergeMode,
)
from tideline.hudi.table.names import column_names
from tideline.hudi.table.partial_updates import PartialUpdateMode
from tideline.hudi.table.properties import has_table_metadata, table_checksum
from tideline.hudi.table.schema import arrow_to_avro, is_meta_column, record_name, stored_schema
from tideline.hudi.table.settings import Settings
from tideline.hudi.table.table_config import (
    PROPERTIES_PATH,
    KeyGeneratorKind,
    TableConfig,
    TableType,
    infer_key_generator,
)
from tideline.hudi.timeline.zone import TimelineZone
from tideline.settings.gate import check_given
from tideline.settings.registry import find_setting
from tideline.settings.setting import SettingPlace
from tideline.storage.object_store import AlreadyExists, ObjectStore

BUCKET_COUNT_DEFAULT = 256

_HUDI_INDEX_TYPE = "hoodie.index.type"
_BUCKET_ENGINE = "hoodie.index.bucket.engine"
_TIMESTAMP_TYPE = "hoodie.keygen.timebased.timestamp.type"
_TIMESTAMP_OUTPUT = "hoodie.keygen.timebased.output.dateformat"
_KEY_TYPE, _KEY_CLASS = keys.KEY_GENERATOR_TYPE, keys.KEY_GENERATOR_CLASS
# Parts of the definition that have no other name.
_KEPT_PARTS = ("hoodie.keygen.", "hoodie.datasource.write.keygenerator.", keys.SINGLE_WRITER)
_PARTITION_TYPES = frozenset({"SIMPLE", "TIMESTAMP"})
_CREDENTIAL = re.compile(r"secret|password|credential|access.?key|token", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a new table is to be.

    `partition_by` names columns, for a custom key generator as `column:SIMPLE` or
    `column:TIMESTAMP`. `key_generator` and `merge_mode` None are inferred: from the fields, and
    event time when there is an ordering. `properties` are further settings that every later
    writer shall find: key generator formats, index (`hoodie.index.type`, buckets), sizing.
    """

    name: str
    record_key: tuple[str, ...]
    partition_by: tuple[str, ...] = ()
    ordering: tuple[str, ...] = ()
    table_type: TableType = TableType.COPY_ON_WRITE
    table_version: int = TABLE_VERSION
    key_generator: KeyGeneratorKind | None = None
    hive_style: bool = False
    url_encode: bool = False
    schema: pa.Schema | None = None
    merge_mode: MergeMode | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A text is a sequence of texts as well: `"id"` would become the columns i and d, for good.
        for role in ("record_key", "partition_by", "ordering"):
            object.__setattr__(self, role, column_names(getattr(self, role)))


def create_table(store: ObjectStore, definition: TableDefinition, clock: Clock) -> TableConfig:
    """Create the table in `store`.

    Raises ConfigError for a definition that contradicts itself or its schema, TableExistsError when
    a table exists here already (or another creator was faster).
    """
    properties = table_properties(definition)
    body = format_properties(properties, updated_at_ms=clock.now_ms())
    refuse_existing_table(store)
    if isinstance(store.put_if_absent(PROPERTIES_PATH, body, token=uuid4().hex), AlreadyExists):
        raise _exists(store)
    return TableConfig(own_names(properties), store.uri)


def refuse_existing_table(store: ObjectStore) -> None:
    """Raise TableExistsError when a Hudi table, or what is left of one, is in `store`."""
    if has_table_metadata(store):
        raise _exists(store)


def table_properties(definition: TableDefinition) -> dict[str, str]:
    """The content of a new table's `hoodie.properties`. Raises ConfigError, see `create_table`."""
    given = _given(definition)
    definition = _defined(definition, given)
    _check(definition)
    kind = definition.key_generator or infer_key_generator(
        definition.record_key, definition.partition_by
    )
    mode = definition.merge_mode or (
        MergeMode.EVENT_TIME_ORDERING if definition.ordering else MergeMode.COMMIT_TIME_ORDERING
    )
    rules = layout_of_new(definition.table_version).properties
    properties = {
        keys.NAME: definition.name,
        keys.DATABASE_NAME: given.get(keys.DATABASE_NAME, ""),
        keys.TYPE: definition.table_type.value,
        **rules.created,
        keys.TIMELINE_TIMEZONE: _timeline_timezone(definition),
        keys.BASE_FILE_FORMAT: "PARQUET",
        keys.RECORD_KEY_FIELDS: ",".join(definition.record_key),
        **_key_generator(rules, kind),
        **_merging(rules, mode),
        **_filling_up(definition, given, mode),
        keys.POPULATE_META_FIELDS: "true",
        keys.CDC_ENABLED: "false",
        keys.DROP_PARTITION_COLUMNS: "false",
        keys.PARTITION_METAFILE_BASE_FORMAT: "false",
        keys.HIVE_STYLE: _flag(definition.hive_style),
        keys.URL_ENCODE: _flag(definition.url_encode),
        keys.METADATA_PARTITIONS: "",
        keys.METADATA_PARTITIONS_INFLIGHT: "",
    }
    if kind is KeyGeneratorKind.COMPLEX and len(definition.record_key) == 1:
        properties[keys.KEY_SPELLING_CHECKED] = "false"
    if definition.partition_by:
        properties[keys.PARTITION_FIELDS] = ",".join(definition.partition_by)
    if definition.ordering:
        properties[rules.ordering] = ",".join(definition.ordering)
    if definition.schema is not None:
        properties[keys.CREATE_SCHEMA] = _schema_json(definition)
    properties |= _extra_properties(definition, given)
    check_agreement(given, TableConfig(properties))
    _check_key_generator(kind, definition, properties)
    properties[keys.CHECKSUM] = table_checksum(properties)
    return properties


def _key_generator(rules: PropertyRules, kind: KeyGeneratorKind) -> dict[str, str]:
    if rules.names_kinds:
        return {keys.KEY_GENERATOR_TYPE: kind.value}
    return {keys.KEY_GENERATOR_CLASS: kind.class_name}


def _merging(rules: PropertyRules, mode: MergeMode) -> dict[str, str]:
    by_class = {keys.PAYLOAD_CLASS: PAYLOAD_OF_MODE[mode]}
    if not rules.names_kinds:
        return by_class
    by_kind = {keys.MERGE_MODE: mode.value}
    if not rules.have_payload:
        return by_kind
    return {**by_kind, **by_class, keys.MERGE_STRATEGY_ID: STRATEGY_OF_MODE[mode]}


def _filling_up(
    definition: TableDefinition, given: Mapping[str, str], mode: MergeMode
) -> dict[str, str]:
    """How rows fill each other up. Hudi makes such tables by their payload class, and notes it."""
    marked = keys.UNAVAILABLE_PROPERTY
    name, marker = given.get(keys.PARTIAL_UPDATE_MODE, "").upper(), given.get(marked, "")
    if not name:
        return {}
    if not layout_of_new(definition.table_version).properties.merge_settings:
        raise ConfigError(
            f"{keys.PARTIAL_UPDATE_MODE} is for tables of version 9", value=definition.table_version
        )
    if PartialUpdateMode(name) is PartialUpdateMode.IGNORE_DEFAULTS:
        return {keys.PARTIAL_UPDATE_MODE: name, keys.LEGACY_PAYLOAD: PAYLOAD_OF_NULLS[mode]}
    if not marker:
        raise ConfigError(
            f"{name} needs the marker of a value that was not available", value=marked
        )
    return {keys.PARTIAL_UPDATE_MODE: name, marked: marker}


def _exists(store: ObjectStore) -> TableExistsError:
    message = "a table, or what is left of one, exists here already"
    return TableExistsError(message, table=store.uri, path=PROPERTIES_PATH)


def _check(definition: TableDefinition) -> None:
    if not definition.name.strip():
        raise ConfigError("a table needs a name", value=definition.name)
    if not definition.name.isprintable():
        message = "a table name with a control character, or one that is not valid Unicode"
        raise ConfigError(message, value=ascii(definition.name))
    layout_of_new(definition.table_version)
    if not definition.record_key:
        raise ConfigError("a table needs at least one record key column")
    columns = {
        "record key": definition.record_key,
        "partition": tuple(item.partition(":")[0] for item in definition.partition_by),
        "ordering": definition.ordering,
    }
    for role, names in columns.items():
        _check_columns(role, names)
        if definition.schema is not None:
            _check_in_schema(role, names, definition.schema)
    if definition.schema is not None:
        _check_schema(definition.schema)
    if definition.merge_mode is MergeMode.EVENT_TIME_ORDERING and not definition.ordering:
        raise ConfigError("event time ordering needs an ordering column")


def _check_columns(role: str, names: Iterable[str]) -> None:
    seen = set()
    for name in names:
        if not name.strip() or "," in name:
            raise ConfigError(f"not a {role} column name", value=name)
        if not all(is_column_name(part) for part in name.split(".")):
            raise ConfigError(f"not a {role} column name: {COLUMN_NAMES}", value=name)
        if name in seen:
            raise ConfigError(f"{role} column named twice", value=name)
        seen.add(name)


def _check_in_schema(role: str, names: Iterable[str], schema: pa.Schema) -> None:
    for name in names:
        fields: Iterable[pa.Field] = schema
        for part in name.split("."):
            found = [item for item in fields if item.name == part]
            if not found:
                raise ConfigError(f"the schema has no such {role} column", value=name)
            is_struct = pa.types.is_struct(found[0].type)
            fields = tuple(found[0].type) if is_struct else ()
            nested = is_struct or pa.types.is_nested(found[0].type)
        if nested:
            raise ConfigError(f"a {role} column must hold single values", value=name)


def _check_schema(schema: pa.Schema) -> None:
    folded: dict[str, str] = {}
    for name in schema.names:
        if is_meta_column(name):
            raise ConfigError("the schema holds a column that Hudi adds itself", value=name)
        other = folded.setdefault(name.casefold(), name)
        if other is not name:
            raise ConfigError(
                "columns differ only by case: rename all but one", value=f"{other}, {name}"
            )
    if not schema.names:
        raise ConfigError("the schema has no columns: give one or more")


def _schema_json(definition: TableDefinition) -> str:
    name, namespace = record_name(definition.name)
    try:
        schema = stored_schema(definition.schema)
        untyped = [item.name for item in schema if pa.types.is_null(item.type)]
        if untyped:
            raise ConfigError("a column has no type", value=", ".join(untyped))
        avro = arrow_to_avro(schema, name=name, namespace=namespace)
    except InvalidDataError as error:
        raise ConfigError(error.message, value=error.value) from error
    return json.dumps(avro, separators=(",", ":"), ensure_ascii=False)


def _timeline_timezone(definition: TableDefinition) -> str:
    """Hudi's word for the zone of the instants, which has none for a zone that is declared."""
    name = definition.properties.get(keys.TIMEZONE, "")
    return "LOCAL" if name and not TimelineZone.parse(name).is_utc else "UTC"


def _given(definition: TableDefinition) -> dict[str, str]:
    """The caller's properties by their first names. Raises ConfigError, for credentials as well."""
    for name in definition.properties:
        if _CREDENTIAL.search(name):
            raise ConfigError("not a property a table can hold", value=name)
    return check_given(definition.properties, SettingPlace.TABLE)


def _defined(definition: TableDefinition, given: Mapping[str, str]) -> TableDefinition:
    """The definition, with what only the properties say of key generator, paths and merging."""
    read = Settings(given)
    kind = definition.key_generator
    if kind is None and (name := read.text(_KEY_TYPE) or read.text(_KEY_CLASS)):
        kind = KeyGeneratorKind.from_type(name) or KeyGeneratorKind.from_class(name)
        if kind is None:
            raise ConfigError("key generator is not supported", value=name)
    return replace(
        definition,
        key_generator=kind,
        merge_mode=definition.merge_mode or _merge_mode(read),
        hive_style=read.boolean(keys.HIVE_STYLE, definition.hive_style),
        url_encode=read.boolean(keys.URL_ENCODE, definition.url_encode),
    )


def _merge_mode(read: Settings) -> MergeMode | None:
    modes = (
        (keys.MERGE_MODE, lambda text: MergeMode.__members__.get(text.upper())),
        (keys.PAYLOAD_CLASS, MergeMode.from_payload),
        (keys.MERGE_STRATEGY_ID, MergeMode.from_strategy),
    )
    for name, parse in modes:
        if text := read.text(name):
            found = parse(text)
            if found is None:
                raise ConfigError(f"{name}: no such way of merging is supported", value=text)
            return found
    return None


def _extra_properties(definition: TableDefinition, given: Mapping[str, str]) -> dict[str, str]:
    """What is kept with the definition, and the index settings that all writers must share."""
    extra = {name: text for name, text in given.items() if _is_kept(name)}
    index = extra.pop(_HUDI_INDEX_TYPE, extra.pop(keys.INDEX_TYPE, "")).upper()
    if index:
        extra[keys.INDEX_TYPE] = index
    if index == "BUCKET":
        extra |= _bucket_properties(definition, extra)
    return {stored_name(name): text for name, text in extra.items()}


def _is_kept(name: str) -> bool:
    """Whether a given property is kept as it is, rather than being a part of the definition."""
    setting = find_setting(name)
    is_part = setting is not None and setting.settles_table
    return not is_part or name.startswith(_KEPT_PARTS)


def _bucket_properties(definition: TableDefinition, extra: Mapping[str, str]) -> dict[str, str]:
    engine = Settings(extra).text(_BUCKET_ENGINE)
    if engine.upper() != "SIMPLE":
        raise ConfigError(f"{_BUCKET_ENGINE}: only SIMPLE can be created", value=engine)
    count = extra.get(keys.BUCKET_COUNT, str(BUCKET_COUNT_DEFAULT))
    if re.fullmatch(r"[1-9][0-9]{0,6}", count, re.ASCII) is None:
        raise ConfigError(f"{keys.BUCKET_COUNT} must be a positive number", value=count)
    hashed = extra.get(keys.BUCKET_HASH_FIELD, ",".join(definition.record_key))
    strangers = [name for name in hashed.split(",") if name not in definition.record_key]
    if strangers:
        raise ConfigError(
            f"{keys.BUCKET_HASH_FIELD} must be among the record key columns",
            value=",".join(strangers),
        )
    return {keys.BUCKET_COUNT: count, keys.BUCKET_HASH_FIELD: hashed}


def _check_key_generator(
    kind: KeyGeneratorKind, definition: TableDefinition, properties: Mapping[str, str]
) -> None:
    partitions = definition.partition_by
    types = [item.partition(":")[2] for item in partitions]
    if kind is KeyGeneratorKind.CUSTOM:
        if not partitions or not _PARTITION_TYPES.issuperset(types):
            raise ConfigError(
                "a custom key generator takes each partition column with its type: pass it as "
                "column:SIMPLE or column:TIMESTAMP",
                value=",".join(partitions) or None,
            )
    elif any(types):
        raise ConfigError(
            f"only a custom key generator has typed partitions, not {kind}",
            value=",".join(partitions),
        )
    allowed = _PARTITION_COUNT.get(kind)
    if allowed is not None and len(partitions) != allowed:
        raise ConfigError(
            f"a {kind} key generator takes {allowed} partition column(s)",
            value=",".join(partitions) or None,
        )
    if kind is KeyGeneratorKind.SIMPLE and len(definition.record_key) != 1:
        raise ConfigError(
            "a SIMPLE key generator takes one record key column",
            value=",".join(definition.record_key),
        )
    if kind is KeyGeneratorKind.TIMESTAMP or "TIMESTAMP" in types:
        absent = [key for key in (_TIMESTAMP_TYPE, _TIMESTAMP_OUTPUT) if not properties.get(key)]
        if absent:
            raise ConfigError("timestamp partitions need this property", value=", ".join(absent))


def _flag(value: bool) -> str:
    return "true" if value else "false"


_PARTITION_COUNT = {
    KeyGeneratorKind.SIMPLE: 1,
    KeyGeneratorKind.TIMESTAMP: 1,
    KeyGeneratorKind.NON_PARTITION: 0,
}
