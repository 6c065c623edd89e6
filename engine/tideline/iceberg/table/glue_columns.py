"""An Iceberg table's columns as Glue lists them, for people and for services that read no Iceberg.

Readers of Iceberg take columns from the metadata file. Source: Iceberg, "AWS integrations"; the
parameters of a column are those that Iceberg's own Glue catalog sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideline.glue.table_input import COMMENT_LENGTH_MAX

_TYPES = {
    "boolean": "boolean", "int": "int", "long": "bigint", "float": "float", "double": "double",
    "date": "date", "timestamp": "timestamp", "timestamptz": "timestamp",
    "timestamp_ns": "timestamp", "timestamptz_ns": "timestamp", "binary": "binary",
}  # fmt: skip
"""Glue has no time, uuid, variant or place: they are text there."""


def glue_columns(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of a metadata document: the columns of the current schema, then those of former ones."""
    current = metadata["current-schema-id"]
    schemas = sorted(metadata["schemas"], key=lambda schema: schema["schema-id"] != current)
    found: dict[str, dict[str, Any]] = {}
    for schema in schemas:
        is_current = schema["schema-id"] == current
        for field in schema["fields"]:
            # Names in Glue have no case.
            found.setdefault(field["name"].lower(), _column(field, is_current=is_current))
    return list(found.values())


def glue_type(found: Any) -> str:
    """The type of a field, as Hive spells it."""
    if isinstance(found, str):
        if found.startswith("decimal("):
            return found.replace(" ", "")
        return "binary" if found.startswith("fixed[") else _TYPES.get(found, "string")
    match found["type"]:
        case "struct":
            fields = (f"{field['name']}:{glue_type(field['type'])}" for field in found["fields"])
            return f"struct<{','.join(fields)}>"
        case "list":
            return f"array<{glue_type(found['element'])}>"
    return f"map<{glue_type(found['key'])},{glue_type(found['value'])}>"


def _column(field: Mapping[str, Any], *, is_current: bool) -> dict[str, Any]:
    column = {
        "Name": field["name"],
        "Type": glue_type(field["type"]),
        "Parameters": {
            "iceberg.field.id": str(field["id"]),
            "iceberg.field.optional": str(not field["required"]).lower(),
            "iceberg.field.current": str(is_current).lower(),
        },
    }
    if field.get("doc"):
        column["Comment"] = field["doc"][:COMMENT_LENGTH_MAX]
    return column
