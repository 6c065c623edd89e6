"""What a table's properties mean: their keys, and `TableConfig`, a typed view of them.

Reading and changing the file that holds them is in `properties`.
Source: Hudi's HoodieTableConfig, KeyGeneratorType, RecordMergeMode (0.14 and 1.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

from tideline.bounded.parsing import parse_json
from tideline.errors import ConfigError, CorruptTableError, UnsupportedTableError
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION as TABLE_VERSION
from tideline.hudi.table.layout.known_layouts import (
    layout_of,
    table_version_in,
    timeline_layout_in,
)
from tideline.hudi.table.layout.metadata_partitions import BLOOM_FILTERS as BLOOM_FILTERS
from tideline.hudi.table.layout.metadata_partitions import COLUMN_STATS as COLUMN_STATS
from tideline.hudi.table.layout.metadata_partitions import FILES as FILES
from tideline.hudi.table.layout.metadata_partitions import (
    KEPT_IN_METADATA_TABLE as KEPT_IN_METADATA_TABLE,
)
from tideline.hudi.table.layout.metadata_partitions import PARTITION_STATS as PARTITION_STATS
from tideline.hudi.table.layout.metadata_partitions import RECORD_INDEX as RECORD_INDEX
from tideline.hudi.table.layout.metadata_partitions import SECONDARY_INDEX as SECONDARY_INDEX
from tideline.hudi.table.layout.table_layout import TableLayout
from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.partial_updates import PartialUpdateMode, PartialUpdates
from tideline.hudi.timeline.zone import UTC_ZONE, TimelineZone

PROPERTIES_PATH = ".hoodie/hoodie.properties"

NATIVE_FORMAT = "native"
NAME = "hoodie.table.name"
DATABASE_NAME = "hoodie.database.name"
TYPE = "hoodie.table.type"
CHECKSUM = "hoodie.table.checksum"
RECORD_KEY_FIELDS = "hoodie.table.recordkey.fields"
PARTITION_FIELDS = "hoodie.table.partition.fields"
PRECOMBINE_FIELD = "hoodie.table.precombine.field"
ORDERING_FIELDS = "hoodie.table.ordering.fields"
KEY_GENERATOR_CLASS = "hoodie.table.keygenerator.class"
KEY_GENERATOR_TYPE = "hoodie.table.keygenerator.type"
KEY_SPELLING_CHECKED = "hoodie.write.complex.keygen.validation.enable"
"""False in tables where it is known that no Hudi version spelled some of their keys otherwise.

Hudi 0.14.1 to 1.0.2 spelled a complex key of one column without the column's name. Later versions
refuse a table with such a key generator unless this says that they need not (KeyGenUtils).
"""
PAYLOAD_CLASS = "hoodie.compaction.payload.class"
MERGE_MODE = "hoodie.record.merge.mode"
MERGE_STRATEGY_ID = "hoodie.record.merge.strategy.id"
PARTIAL_UPDATE_MODE = "hoodie.table.partial.update.mode"
UNAVAILABLE_PROPERTY = "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value"
MERGE_PROPERTY = "hoodie.record.merge.property."
LEGACY_PAYLOAD = "hoodie.table.legacy.payload.class"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
DROP_PARTITION_COLUMNS = "hoodie.datasource.write.drop.partition.columns"
POPULATE_META_FIELDS = "hoodie.populate.meta.fields"
BASE_FILE_FORMAT = "hoodie.table.base.file.format"
PARQUET = "PARQUET"
_FORMATS_READ = (PARQUET, "ORC", "LANCE")
BOOTSTRAP_BASE_PATH = "hoodie.bootstrap.base.path"
CDC_ENABLED = "hoodie.table.cdc.enabled"
METADATA_PARTITIONS = "hoodie.table.metadata.partitions"
METADATA_PARTITIONS_INFLIGHT = "hoodie.table.metadata.partitions.inflight"
METADATA_TABLE_PATH = ".hoodie/metadata"
EXPRESSION_INDEX = "expr_index_"
"""How the names of those partitions of a metadata table begin that have bounds of a function of a
column."""
TIMELINE_TIMEZONE = "hoodie.table.timeline.timezone"
CREATE_SCHEMA = "hoodie.table.create.schema"
TABLE_FORMAT = "hoodie.table.format"
MULTIPLE_BASE_FORMATS = "hoodie.table.multiple.base.file.formats.enable"
SLASH_SEPARATED_DATES = "hoodie.datasource.write.slash.separated.date.partitioning"
PARTITION_METAFILE_BASE_FORMAT = "hoodie.partition.metafile.use.base.format"
BUCKET_COUNT = "hoodie.bucket.index.num.buckets"
BUCKET_HASH_FIELD = "hoodie.bucket.index.hash.field"
INDEX_TYPE = "tideline.index.type"
SINGLE_WRITER = "tideline.single.writer"
TIMEZONE = "tideline.timezone"
PUBLISH = "tideline.publish"
PUBLISH_MERGE = "tideline.publish.merge"
PUBLISH_IDENTIFIER = "tideline.publish.identifier"
PUBLISH_CATALOG = "tideline.publish.catalog"
PUBLISH_CATALOG_TYPE = "tideline.publish.catalog.type"
PUBLISH_CATALOG_URI = "tideline.publish.catalog.uri"
PUBLISH_CATALOG_WAREHOUSE = "tideline.publish.catalog.warehouse"
ICEBERG = "iceberg"
SYNC = "tideline.sync"


class TableType(Enum):
    """How updates are stored: by rewriting base files, or in logs on top of them."""

    COPY_ON_WRITE = "COPY_ON_WRITE"
    MERGE_ON_READ = "MERGE_ON_READ"
    # As Hudi's SQL has them.
    COW = COPY_ON_WRITE
    MOR = MERGE_ON_READ

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class KeyGeneratorKind(Enum):
    """How record keys and partition paths are made (Hudi: KeyGeneratorType)."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"

    @classmethod
    def from_class(cls, class_name: str) -> KeyGeneratorKind | None:
        """The kind of a Java key generator class, None for a custom class."""
        return _KIND_OF_CLASS.get(class_name.replace("AvroKey", "Key"))

    @classmethod
    def from_type(cls, type_name: str) -> KeyGeneratorKind | None:
        """The kind of a `hoodie.table.keygenerator.type` value; the _AVRO twins are the same."""
        name = type_name.upper().removesuffix("_AVRO")
        return cls(name) if name in cls.__members__ else None

    @property
    def class_name(self) -> str:
        """The Java class that Hudi 0.14 and 1.x both know it by."""
        return _CLASS_OF_KIND[self]

    def __str__(self) -> str:
        return self.value

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


_CLASS_OF_KIND = {
    KeyGeneratorKind.SIMPLE: "org.apache.hudi.keygen.SimpleKeyGenerator",
    KeyGeneratorKind.COMPLEX: "org.apache.hudi.keygen.ComplexKeyGenerator",
    KeyGeneratorKind.NON_PARTITION: "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    KeyGeneratorKind.TIMESTAMP: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    KeyGeneratorKind.CUSTOM: "org.apache.hudi.keygen.CustomKeyGenerator",
}
_KIND_OF_CLASS = {name: kind for kind, name in _CLASS_OF_KIND.items()}


@dataclass(frozen=True, slots=True)
class TableConfig:
    """A typed view of the table's properties.

    Understands the keys of Hudi 0.14 and those that Hudi 1.x writes into version 6 tables.
    Attributes raise CorruptTableError for a value that cannot be, UnsupportedTableError for one
    that Tideline refuses; `table_uri` is only for their messages.
    """

    properties: Mapping[str, str]
    table_uri: str = field(default="", compare=False)

    @property
    def name(self) -> str:
        return self.properties.get(NAME, "")

    @property
    def database(self) -> str:
        return self.properties.get(DATABASE_NAME, "")

    @property
    def table_type(self) -> TableType:
        text = self.properties.get(TYPE, "")
        if text.upper() not in TableType.__members__:
            raise self._corrupt("unknown table type", TYPE, text)
        return TableType(text.upper())

    @property
    def version(self) -> int:
        """`hoodie.table.version`, to be shown; what depends on it is in `layout`."""
        with self._naming():
            return table_version_in(self.properties)

    @property
    def layout_version(self) -> int:
        """`hoodie.timeline.layout.version`, to be shown likewise."""
        with self._naming():
            return timeline_layout_in(self.properties)

    @property
    def layout(self) -> TableLayout:
        """How the table lies on disk. Raises UnsupportedTableError for a version not read here."""
        with self._naming():
            return layout_of(self.properties)

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        return self._list(RECORD_KEY_FIELDS)

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Column names, without the `:TIMESTAMP` a custom key generator adds."""
        return tuple(spec.partition(":")[0] for spec in self._list(PARTITION_FIELDS))

    @property
    def partition_field_types(self) -> tuple[str, ...]:
        """Per partition field `SIMPLE` or `TIMESTAMP` (custom key generator), else ""."""
        return tuple(spec.partition(":")[2].upper() for spec in self._list(PARTITION_FIELDS))

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        return self._list(ORDERING_FIELDS) or self._list(PRECOMBINE_FIELD)

    @property
    def key_generator(self) -> KeyGeneratorKind:
        """From the class, else the type, else inferred as Hudi does (KeyGenUtils)."""
        class_name = self.properties.get(KEY_GENERATOR_CLASS, "")
        type_name = self.properties.get(KEY_GENERATOR_TYPE, "")
        if not class_name and not type_name:
            return infer_key_generator(self.record_key_fields, self._list(PARTITION_FIELDS))
        kind = (
            KeyGeneratorKind.from_class(class_name)
            if class_name
            else KeyGeneratorKind.from_type(type_name)
        )
        if kind is None:
            raise self._unsupported("key generator is not supported", class_name or type_name)
        return kind

    @property
    def hive_style(self) -> bool:
        return self._flag(HIVE_STYLE)

    @property
    def url_encode(self) -> bool:
        return self._flag(URL_ENCODE)

    @property
    def populate_meta_fields(self) -> bool:
        return self._flag(POPULATE_META_FIELDS, default=True)

    @property
    def drop_partition_columns(self) -> bool:
        return self._flag(DROP_PARTITION_COLUMNS)

    @property
    def merge_mode(self) -> MergeMode:
        """From the mode, else the payload class, else the merge strategy, else the ordering fields.

        Raises UnsupportedTableError for a custom mode, payload or strategy: such a table can be
        read where nothing has to be merged, but not written. Rows may be filled up in addition, see
        `partial_updates`.
        """
        mode = self.properties.get(MERGE_MODE, "")
        payload = self.properties.get(PAYLOAD_CLASS, "")
        strategy = self.properties.get(MERGE_STRATEGY_ID, "")
        if payload and MergeMode.from_payload(payload) is None:
            raise self._unsupported("records are merged in a custom way", payload)
        if mode:
            found = MergeMode.__members__.get(mode)
        elif payload:
            found = MergeMode.from_payload(payload)
        elif strategy:
            found = MergeMode.from_strategy(strategy)
        elif self.ordering_fields:
            found = MergeMode.EVENT_TIME_ORDERING
        else:
            found = MergeMode.COMMIT_TIME_ORDERING
        if found is None:
            raise self._unsupported("records are merged in a custom way", mode or strategy)
        return found

    @property
    def known_merge_mode(self) -> MergeMode | None:
        """The same; None where records are merged by custom code."""
        try:
            return self.merge_mode
        except UnsupportedTableError:
            return None

    @property
    def partial_updates(self) -> PartialUpdates | None:
        """How rows are filled up from those they win against; None where they are not.

        Versions before 9 do not know the property. Raises UnsupportedTableError for a mode that is
        not known.
        """
        name = self.properties.get(PARTIAL_UPDATE_MODE, "").strip()
        if not name or not self.layout.properties.merge_settings:
            return None
        mode = PartialUpdateMode.__members__.get(name.upper())
        if mode is None:
            raise self._unsupported(
                "rows are filled up from the rows they replace in an unknown way",
                f"{PARTIAL_UPDATE_MODE}={name}",
            )
        return PartialUpdates(mode, self.properties.get(UNAVAILABLE_PROPERTY))

    def merge_property(self, name: str) -> str | None:
        """A setting that says how rows are merged, such as `hoodie.payload.delete.field`."""
        return self.merge_settings.get(name) or self.properties.get(name)

    @property
    def merge_settings(self) -> dict[str, str]:
        """All of them that stand under names of their own, which begin with `MERGE_PROPERTY`."""
        named = [name for name in self.properties if name.startswith(MERGE_PROPERTY)]
        if not named or not self.layout.properties.merge_settings:
            return {}
        return {name.removeprefix(MERGE_PROPERTY): self.properties[name] for name in named}

    @property
    def metadata_partitions(self) -> tuple[str, ...]:
        """The partitions of the metadata table in use; empty when it is switched off."""
        return self._list(METADATA_PARTITIONS)

    @property
    def metadata_partitions_in_work(self) -> tuple[str, ...]:
        """The same, and those that are being built: what writers have to keep or to drop."""
        return tuple({*self.metadata_partitions, *self._list(METADATA_PARTITIONS_INFLIGHT)})

    @property
    def keeps_metadata_table(self) -> bool:
        """Whether the metadata table lists files, in a version in which that is kept and read."""
        return self.layout.keeps_metadata_table and FILES in self.metadata_partitions

    def may_keep(self, partition: str) -> bool:
        """Whether a partition of the metadata table is of a kind that is kept in this version."""
        is_known = partition in KEPT_IN_METADATA_TABLE or partition.startswith(SECONDARY_INDEX)
        return is_known and self.layout.keeps_partition(partition)

    def has_kept(self, partition: str) -> bool:
        """Whether the table has a partition of the metadata table that commits keep, so that what
        it says is followed here."""
        is_there = self.keeps_metadata_table and partition in self.metadata_partitions
        return is_there and self.may_keep(partition)

    @property
    def timeline_timezone(self) -> str:
        """`UTC` or `LOCAL`: whose digits the instant times of the table are."""
        return self.properties.get(TIMELINE_TIMEZONE, "LOCAL").upper()

    @property
    def base_file_format(self) -> str:
        """Such as PARQUET, of all base files."""
        return self.properties.get(BASE_FILE_FORMAT, PARQUET).upper()

    @property
    def bootstrap_base_path(self) -> str | None:
        """Where the files were that a bootstrap made the table of; None of any other table."""
        return self.properties.get(BOOTSTRAP_BASE_PATH) or None

    @property
    def declared_zone(self) -> TimelineZone | None:
        """The zone of the instants: UTC where Hudi's property says so, else as it is declared.

        None for a LOCAL table whose zone is not declared. Raises ConfigError for an unknown zone,
        and for one declared of a table that is UTC.
        """
        return self.zone_declared_as(self.properties.get(TIMEZONE))

    def zone_declared_as(self, name: str | None) -> TimelineZone | None:
        """The same, if it were declared by this `name`."""
        declared = TimelineZone.parse(name) if name and name.strip() else None
        if self.timeline_timezone != UTC_ZONE.name:
            return declared
        if declared is not None and not declared.is_utc:
            raise ConfigError(
                f"{TIMEZONE} cannot be declared: {TIMELINE_TIMEZONE} says that the table is UTC",
                table=self.table_uri or None,
                value=name,
            )
        return UTC_ZONE

    @property
    def create_schema(self) -> str | None:
        """Avro JSON of the columns the table was created with, without meta fields."""
        return self.properties.get(CREATE_SCHEMA) or None

    @property
    def declared_columns(self) -> frozenset[str]:
        """Names, in lower case, of the columns that the table was created with."""
        fields = parse_json(self.create_schema or "{}", what=CREATE_SCHEMA).get("fields", ())
        return frozenset(str(item["name"]).lower() for item in fields)

    @property
    def index_type(self) -> str | None:
        """The index every writer of the table uses, None when each may choose its own."""
        return self.properties.get(INDEX_TYPE) or None

    @property
    def bucket_count(self) -> int | None:
        return self._integer(BUCKET_COUNT, 0) or None

    @property
    def bucket_hash_fields(self) -> tuple[str, ...]:
        return self._list(BUCKET_HASH_FIELD) or self.record_key_fields

    @property
    def single_writer(self) -> bool:
        """Whether the table is declared to have one writer, so failed writes roll back eagerly."""
        return self._flag(SINGLE_WRITER)

    @property
    def logs_changes(self) -> bool:
        """Whether writers keep a log of changes in addition to the rows (change data capture)."""
        return self.has_flag(CDC_ENABLED)

    def has_flag(self, key: str) -> bool:
        """Whether a property is there and true."""
        return self._flag(key)

    def check_readable(self) -> None:
        """Raise UnsupportedTableError unless its layout and its base files are read."""
        _ = self.layout
        if self.base_file_format not in _FORMATS_READ:
            raise self._unsupported("base file format is not supported", self.base_file_format)
        if self._flag(MULTIPLE_BASE_FORMATS):
            raise self._unsupported(
                "several base file formats in one table are not supported",
                f"{MULTIPLE_BASE_FORMATS}=true",
            )
        table_format = self.properties.get(TABLE_FORMAT, "") or NATIVE_FORMAT
        if table_format.lower() != NATIVE_FORMAT:
            raise self._unsupported(
                "its timeline is kept in another table format, which is not supported",
                f"{TABLE_FORMAT}={table_format}",
            )
        _ = self.table_type  # raises for one that is none

    def check_writable(self) -> None:
        """The same, unless tables of its layout are changed here, too."""
        self.check_readable()
        layout = self.layout
        if not layout.is_written:
            raise self._unsupported(
                f"a table of version {layout.table_version} is read, but not changed",
                str(layout.table_version),
            )

    def _list(self, key: str) -> tuple[str, ...]:
        parts = (part.strip() for part in self.properties.get(key, "").split(","))
        return tuple(part for part in parts if part)

    def _flag(self, key: str, *, default: bool = False) -> bool:
        text = self.properties.get(key, "")
        return text.strip().lower() == "true" if text else default

    def _integer(self, key: str, default: int) -> int:
        text = self.properties.get(key, "").strip()
        if not text:
            return default
        if not re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
            raise self._corrupt("not a number", key, text)
        return int(text)

    @contextmanager
    def _naming(self) -> Iterator[None]:
        """Within, errors about the version name the table and its properties."""
        try:
            yield
        except (CorruptTableError, UnsupportedTableError) as error:
            raise type(error)(
                error.message,
                table=self.table_uri or None,
                path=PROPERTIES_PATH,
                value=error.value,
            ) from error

    def _corrupt(self, message: str, key: str, value: str) -> CorruptTableError:
        return CorruptTableError(
            f"{key}: {message}", table=self.table_uri or None, path=PROPERTIES_PATH, value=value
        )

    def _unsupported(self, message: str, value: str | None) -> UnsupportedTableError:
        return UnsupportedTableError(
            message, table=self.table_uri or None, path=PROPERTIES_PATH, value=value
        )


def infer_key_generator(
    record_key_fields: Sequence[str], partition_fields: Sequence[str]
) -> KeyGeneratorKind:
    """The key generator of a table that names none (Hudi: KeyGenUtils.inferKeyGeneratorType)."""
    if not partition_fields:
        return KeyGeneratorKind.NON_PARTITION
    if any(":" in field_name for field_name in partition_fields):
        return KeyGeneratorKind.CUSTOM
    if len(record_key_fields) == 1 and len(partition_fields) == 1:
        return KeyGeneratorKind.SIMPLE
    return KeyGeneratorKind.COMPLEX
