"""Partition folders as Iceberg's partition values.

A table whose key generator writes values into paths (SIMPLE, COMPLEX, a CUSTOM one of SIMPLE
fields) is published partitioned by these columns, when all of them are texts, whole numbers,
booleans or days. Any other is published unpartitioned, and pruned by the bounds of its files.

A path is only believed where a file's own rows agree (`data_file`): else that file is listed under
the unpartitioned spec, which every published table has. Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import unquote

from tideline.hudi.table.table_config import KeyGeneratorKind, TableConfig
from tideline.iceberg.metadata.partition_spec import (
    FIRST_PARTITION_FIELD_ID,
    IDENTITY,
    PartitionField,
    PartitionSpec,
)
from tideline.iceberg.metadata.schema import Schema

UNPARTITIONED = PartitionSpec(0)
_BY_COLUMNS_ID = 1
_NULLS = frozenset({"__HIVE_DEFAULT_PARTITION__", "default"})
_EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class PublishedPartitions:
    """How partition folders become values; `specs` are the published table's, newest last."""

    specs: tuple[PartitionSpec, ...]
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    hive_style: bool

    @classmethod
    def of(cls, config: TableConfig, schema: Schema) -> PublishedPartitions:
        """Of a Hudi table and its Iceberg schema. Raises what reading the properties raises."""
        names = config.partition_fields
        fields = [schema.find(name) for name in names]
        kinds = tuple(str(field.type) if field else "" for field in fields)
        if (
            not names
            or not _paths_are_values(config)
            or not all(kind in _PARSERS for kind in kinds)
        ):
            return cls((UNPARTITIONED,), (), (), False)
        by_columns = tuple(
            PartitionField(field.field_id, FIRST_PARTITION_FIELD_ID + position, name, IDENTITY)
            for position, (name, field) in enumerate(zip(names, fields, strict=True))
            if field is not None
        )
        specs = (UNPARTITIONED, PartitionSpec(_BY_COLUMNS_ID, by_columns))
        return cls(specs, kinds, names, config.hive_style)

    def values(self, partition: str) -> tuple[Any, ...] | None:
        """The values that a folder's path spells, None where it does not spell any."""
        steps = partition.split("/")
        if not self.kinds or len(steps) != len(self.kinds):
            return None
        found = []
        for step, kind, name in zip(steps, self.kinds, self.names, strict=True):
            text = step.removeprefix(f"{name}=") if self.hive_style else step
            try:
                found.append(None if text in _NULLS else _PARSERS[kind](unquote(text)))
            except ValueError:
                return None
        return tuple(found)


def _paths_are_values(config: TableConfig) -> bool:
    generator = config.key_generator
    if generator is KeyGeneratorKind.CUSTOM:
        return all(kind != "TIMESTAMP" for kind in config.partition_field_types)
    return generator in (KeyGeneratorKind.SIMPLE, KeyGeneratorKind.COMPLEX)


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _days(text: str) -> int:
    # Hudi's Avro key generators spell a day as its number.
    return int(text) if text.lstrip("-").isdigit() else (date.fromisoformat(text) - _EPOCH).days


_PARSERS: dict[str, Callable[[str], Any]] = {
    "string": str,
    "int": int,
    "long": int,
    "boolean": _boolean,
    "date": _days,
}
