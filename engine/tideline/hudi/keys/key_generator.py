"""Key generators: which columns make a row's record key and its partition path.

A `KeyGenerator` is a description; the Spark engine turns it into column expressions. Record keys
of several fields (or of the complex generator) read `f1:v1,f2:v2`. A partition path has one level
per partition field; each is the value, or `field=value` in hive style, url-encoded on request.

Source: Hudi's KeyGenUtils, PartitionPathEncodeUtils, TimestampBasedAvroKeyGenerator,
CustomAvroKeyGenerator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from tideline.errors import ConfigError
from tideline.hudi.table.properties import KeyGeneratorKind, TableConfig

NULL_KEY = "__null__"
EMPTY_KEY = "__empty__"
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
ESCAPED_CHARACTERS = "".join(map(chr, range(0x20))) + "\x7f" + "\"#%'*/:=?\\{[]^"
"""What url encoding of a partition value escapes as %XX."""

E = TypeVar("E", bound=Enum)

_TIMEBASED = ("hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased.")


class TimestampType(Enum):
    """How the source column of a timestamp-based partition states its time."""

    UNIX_TIMESTAMP = "UNIX_TIMESTAMP"
    EPOCHMILLISECONDS = "EPOCHMILLISECONDS"
    EPOCHMICROSECONDS = "EPOCHMICROSECONDS"
    DATE_STRING = "DATE_STRING"
    SCALAR = "SCALAR"
    MIXED = "MIXED"


class TimeUnit(Enum):
    """What a number counts since the epoch; values are those of Java's TimeUnit."""

    DAYS = "DAYS"
    HOURS = "HOURS"
    MINUTES = "MINUTES"
    SECONDS = "SECONDS"
    MILLISECONDS = "MILLISECONDS"
    MICROSECONDS = "MICROSECONDS"
    NANOSECONDS = "NANOSECONDS"


@dataclass(frozen=True, slots=True)
class TimestampFormat:
    """Settings of a timestamp-based partition (`hoodie.keygen.timebased.*`).

    `input_formats` say how text reads, `unit` what numbers count; patterns are Joda's. Text without
    an offset is local time in the input zone. The output is in the output zone, for text else in
    the input zone, else in the zone that the text states; UTC when nothing says.
    """

    type: TimestampType
    output_format: str
    input_formats: tuple[str, ...] = ()
    unit: TimeUnit = TimeUnit.SECONDS
    input_zone: str | None = None
    output_zone: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether the source column holds text."""
        return self.type in (TimestampType.DATE_STRING, TimestampType.MIXED)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> TimestampFormat:
        """Read the settings, new or old prefix. Raises ConfigError for what is missing."""

        def value(name: str) -> str:
            found = (
                properties[prefix + name] for prefix in _TIMEBASED if prefix + name in properties
            )
            return next(found, "")

        kind = _member(TimestampType, "timestamp.type", value("timestamp.type"))
        output = value("output.dateformat")
        if not output:
            raise ConfigError(f"{_TIMEBASED[0]}output.dateformat is required")
        separator = value("input.dateformat.list.delimiter.regex") or ","
        formats = [part.strip() for part in re.split(separator, value("input.dateformat"))]
        settings = cls(
            kind,
            output,
            tuple(part for part in formats if part),
            _unit(kind, value("timestamp.scalar.time.unit")),
            value("timezone") or value("input.timezone") or None,
            value("timezone") or value("output.timezone") or None,
        )
        if settings.is_text and not settings.input_formats:
            raise ConfigError(f"{_TIMEBASED[0]}input.dateformat is required for {kind.value}")
        return settings


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One level of the partition path; `timestamp` when it is formatted from a time."""

    field: str
    timestamp: TimestampFormat | None = None


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """How a table makes keys.

    `qualified` record keys name their fields (`f1:v1,f2:v2`); else the only field's bare value.
    `timestamps_as_text` is Hudi's consistent logical timestamp option: timestamps with a zone in
    keys and partitions read as `2024-01-05 18:00:00.0`, in milliseconds, instead of raw
    microseconds. `times_as_text_in_paths` says it of partition paths alone, where these differ.
    With `paths_are_of_sql` they have what Spark SQL makes of them: `2024-01-05 18%3A00%3A00`,
    always escaped, in whole seconds.
    """

    record_fields: tuple[str, ...]
    partition_fields: tuple[PartitionField, ...]
    qualified: bool
    hive_style: bool = False
    url_encode: bool = False
    timestamps_as_text: bool = False
    times_as_text_in_paths: bool | None = None
    paths_are_of_sql: bool = False

    @property
    def paths_have_times_as_text(self) -> bool:
        """Whether timestamps with a zone are text in partition paths."""
        known = self.times_as_text_in_paths
        return self.timestamps_as_text if known is None else known

    @property
    def plain_partition_fields(self) -> tuple[str, ...]:
        """Those that are not formatted from a time."""
        return tuple(part.field for part in self.partition_fields if part.timestamp is None)

    @classmethod
    def from_config(cls, config: TableConfig, *, stored_key: str | None = None) -> KeyGenerator:
        """The generator of a table.

        `stored_key` is any key found in the table: Hudi versions disagree on a complex key of one
        field (`id:1` or `1`), and the keys a table already has decide.
        Raises ConfigError for a table without record key fields.
        """
        fields = config.record_key_fields
        if not fields:
            raise ConfigError("the table has no record key fields", table=config.name)
        kind = config.key_generator
        complex_key = kind is KeyGeneratorKind.COMPLEX or len(fields) > 1
        if complex_key and len(fields) == 1 and stored_key is not None:
            complex_key = stored_key.startswith(f"{fields[0]}:")
        return cls(
            record_fields=fields,
            partition_fields=_partition_fields(config),
            qualified=complex_key,
            hive_style=config.hive_style,
            url_encode=config.url_encode,
            timestamps_as_text=_flag(
                config,
                "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled",
            ),
        )


def key_columns(names: Iterable[str], keys: KeyGenerator) -> list[str]:
    """Those of the input's columns that keys and partition paths are made of."""
    fields = [*keys.record_fields, *[part.field for part in keys.partition_fields]]
    wanted = {name.split(".")[0].lower() for name in fields}
    return [name for name in names if name.lower() in wanted]


def _partition_fields(config: TableConfig) -> tuple[PartitionField, ...]:
    kind = config.key_generator
    if kind is KeyGeneratorKind.NON_PARTITION:
        return ()
    found = []
    for name, part_kind in zip(config.partition_fields, config.partition_field_types, strict=True):
        timed = kind is KeyGeneratorKind.TIMESTAMP or part_kind == "TIMESTAMP"
        settings = TimestampFormat.from_properties(config.properties) if timed else None
        found.append(PartitionField(name, settings))
    return tuple(found)


def _flag(config: TableConfig, key: str) -> bool:
    return config.properties.get(key, "false").lower() == "true"


def _unit(kind: TimestampType, scalar_unit: str) -> TimeUnit:
    if kind is TimestampType.EPOCHMILLISECONDS:
        return TimeUnit.MILLISECONDS
    if kind is TimestampType.EPOCHMICROSECONDS:
        return TimeUnit.MICROSECONDS
    if kind is not TimestampType.SCALAR or not scalar_unit:
        return TimeUnit.SECONDS
    return _member(TimeUnit, "timestamp.scalar.time.unit", scalar_unit.upper())


def _member(kind: type[E], name: str, text: str) -> E:
    if text not in kind.__members__:
        raise ConfigError(
            f"{_TIMEBASED[0]}{name} must be one of {', '.join(kind.__members__)}",
            value=text or None,
        )
    return kind[text]
