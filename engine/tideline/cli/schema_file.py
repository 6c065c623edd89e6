"""Schemas on the command line: files that `create` reads, column lists that `show` prints.

Printing needs nothing but the Avro schema that commits carry, so `show` works without Arrow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tideline.errors import ConfigError, TidelineError

_LOGICAL_NAMES = {
    "timestamp-micros": "timestamp",
    "timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp_ntz",
    "local-timestamp-millis": "timestamp_ntz",
    "date": "date",
    "uuid": "string",
    "time-micros": "time",
    "time-millis": "time",
}
_PRIMITIVE_NAMES = {"bytes": "binary", "fixed": "binary", "enum": "string"}


def read_schema_file(path: str) -> Any:
    """The pyarrow schema in an Avro schema file or a parquet file.

    Raises ConfigError naming the file when it is neither.
    """
    # Arrow is an optional dependency that only creating with a schema needs.
    import pyarrow

    from tideline.formats.parquet_footer import read_schema
    from tideline.hudi.table.schema import avro_to_arrow, without_meta_fields

    try:
        if path.endswith(".parquet"):
            return without_meta_fields(read_schema(path, path=path))
        return without_meta_fields(avro_to_arrow(Path(path).read_text("utf-8")))
    except TidelineError as error:
        raise ConfigError(error.message, path=path, value=error.value) from error
    except (ValueError, OSError, pyarrow.ArrowException) as error:
        raise ConfigError(f"no Avro schema or parquet file: {error}", path=path) from error


def avro_columns(schema_json: str) -> list[dict[str, Any]]:
    """The columns of an Avro record, as name, type (Spark's word) and nullability."""
    record = json.loads(schema_json)
    columns = []
    for field in record["fields"]:
        if field["name"].startswith("_hoodie_") and field["name"] != "_hoodie_is_deleted":
            continue
        kind, nullable = _type_name(field["type"])
        columns.append({"name": field["name"], "type": kind, "nullable": nullable})
    return columns


def _type_name(avro: Any) -> tuple[str, bool]:
    if isinstance(avro, list):
        branches = [branch for branch in avro if branch != "null"]
        names = [_type_name(branch)[0] for branch in branches]
        return " | ".join(names), len(branches) < len(avro)
    if isinstance(avro, str):
        return _PRIMITIVE_NAMES.get(avro, avro), False
    return _complex_name(avro), False


def _complex_name(avro: Mapping[str, Any]) -> str:
    logical = avro.get("logicalType")
    if logical == "decimal":
        return f"decimal({avro['precision']},{avro.get('scale', 0)})"
    if logical in _LOGICAL_NAMES:
        return _LOGICAL_NAMES[logical]
    match avro["type"]:
        case "record":
            members = (f"{f['name']}:{_type_name(f['type'])[0]}" for f in avro["fields"])
            return f"struct<{','.join(members)}>"
        case "array":
            return f"array<{_type_name(avro['items'])[0]}>"
        case "map":
            return f"map<string,{_type_name(avro['values'])[0]}>"
        case nested if not isinstance(nested, str):
            return _type_name(nested)[0]
        case primitive:
            return _PRIMITIVE_NAMES.get(primitive, primitive)
