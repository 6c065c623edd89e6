"""Properties that name columns, after columns were added, renamed or dropped.

The name mapping (`schema.name-mapping.default`) gives ids to files without: a column keeps the
names that it had, and a name that another column is given is that one's. Settings of single columns
follow their column. As Iceberg's `UpdateSchema` does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tideline.bounded.parsing import parse_json
from tideline.errors import ConfigError, CorruptTableError
from tideline.iceberg.evolution.column_tree import Place, places
from tideline.iceberg.evolution.draft import Draft
from tideline.iceberg.metadata.field_type import NestedField, parts_of
from tideline.iceberg.metadata.schema import Schema

NAME_MAPPING = "schema.name-mapping.default"
_OF_COLUMNS = (
    "write.metadata.metrics.column.",
    "write.parquet.bloom-filter-enabled.column.",
    "write.parquet.bloom-filter-fpp.column.",
    "write.parquet.stats-enabled.column.",
)


def with_column_names(draft: Draft, before: Schema) -> Draft:
    """The draft with the properties that its columns need, which were `before`.

    Raises ConfigError for a name mapping that cannot be read.
    """
    properties = _settings(draft.properties, before, draft.schema)
    text = properties.get(NAME_MAPPING)
    if text is not None:
        properties[NAME_MAPPING] = _mapping(draft, before, text)
    return replace(draft, properties=properties)


def _settings(properties: Mapping[str, str], before: Schema, after: Schema) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in properties.items():
        prefix = next((prefix for prefix in _OF_COLUMNS if name.startswith(prefix)), None)
        known = None if prefix is None else before.find(name[len(prefix) :])
        if prefix is None or known is None:
            found[name] = value
            continue
        column = after.name_of(known.field_id)
        if column is not None:
            found[f"{prefix}{column}"] = value
    return found


def _mapping(draft: Draft, before: Schema, text: str) -> str:
    try:
        mapped = parse_json(text)
        known = {place.field.field_id: place for place in places(before.fields)}
        changed = _fields(mapped, None, list(places(draft.fields)), known)
    except (CorruptTableError, AttributeError, TypeError, ValueError) as error:
        message = f"the property {NAME_MAPPING} cannot be read: correct or unset it first"
        raise ConfigError(message, table=draft.table) from error
    return text if changed == mapped else json.dumps(changed, ensure_ascii=False)


def _fields(
    mapped: list[dict[str, Any]],
    parent_id: int | None,
    now: list[Place],
    known: Mapping[int, Place],
) -> list[dict[str, Any]]:
    """The mapped fields of one parent, with new names and new fields."""
    members = [place for place in now if place.parent_id == parent_id]
    new = [place.field for place in members if place.field.field_id not in known]
    renamed = [
        place.field
        for place in members
        if place.field.field_id in known
        and known[place.field.field_id].field.name != place.field.name
    ]
    owners = {field.name: field.field_id for field in (*renamed, *new)}
    names = {field.field_id: field.name for field in renamed}
    found: list[dict[str, Any]] = []
    for item in mapped:
        number = item.get("field-id")
        own = list(item.get("names", ()))
        if number in names and names[number] not in own:
            own.append(names[number])
        own = [name for name in own if owners.get(name, number) == number]
        if not own:
            continue
        item = {**item, "names": own}
        if number is not None and item.get("fields"):
            item["fields"] = _fields(item["fields"], number, now, known)
        found.append(item)
    return [*found, *map(_mapped, new)]


def _mapped(field: NestedField) -> dict[str, Any]:
    document: dict[str, Any] = {"field-id": field.field_id, "names": [field.name]}
    inside = [_mapped(part) for part in parts_of(field.type)]
    return {**document, "fields": inside} if inside else document
