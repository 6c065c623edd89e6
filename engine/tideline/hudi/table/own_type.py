"""Column types of Hudi's own, as logical types in Avro schemas: variant, vector and blob.

Their values are stored as structs and bytes of fixed length, which are read as they are. Pure.
Source: Hudi's HoodieSchema (VariantLogicalType, VectorLogicalType, BlobLogicalType).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

OWN_TYPES = ("variant", "vector", "blob")


def own_type_of(schema_json: str) -> tuple[str, str] | None:
    """The path of the first column of such a type, and the type; None where there is none.

    Raises ValueError for what is no JSON.
    """
    if not any(f'"{name}"' in schema_json for name in OWN_TYPES):
        return None
    return next(_found(json.loads(schema_json), ""), None)


def _found(schema: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(schema, list):
        for branch in schema:
            yield from _found(branch, path)
    if not isinstance(schema, dict):
        return
    if schema.get("logicalType") in OWN_TYPES:
        yield path, schema["logicalType"]
    for field in schema.get("fields", ()):
        name = field["name"]
        yield from _found(field["type"], f"{path}.{name}" if path else name)
    for inner in ("type", "items", "values"):
        yield from _found(schema.get(inner), path)
