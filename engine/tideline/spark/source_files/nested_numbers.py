"""Numbers inside the objects and lists of JSON, at any depth.

A double at the end of a path of fields and lists is found, read as it is written, and cast, as a
column of doubles is (`tideline.spark.source_files.column_inference`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import UnionType

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

ELEMENTS = "[]"
Path = tuple[str, ...]
"""Names of fields, and `ELEMENTS` for what is in a list."""


def paths_to(wanted: type[T.DataType] | UnionType, kind: T.DataType) -> Iterator[Path]:
    """Where a type has parts of a wanted one; the empty path where it is one itself."""
    match kind:
        case T.StructType():
            for item in kind:
                yield from ((item.name, *path) for path in paths_to(wanted, item.dataType))
        case T.ArrayType():
            yield from ((ELEMENTS, *path) for path in paths_to(wanted, kind.elementType))
        case _ if isinstance(kind, wanted):
            yield ()


def with_types(kind: T.DataType, types: Mapping[Path, T.DataType]) -> T.DataType:
    """The type with others at the end of some paths."""
    if () in types:
        return types[()]
    match kind:
        case T.StructType():
            fields = [
                T.StructField(item.name, with_types(item.dataType, _below(types, item.name)))
                for item in kind
            ]
            return T.StructType(fields)
        case T.ArrayType():
            return T.ArrayType(with_types(kind.elementType, _below(types, ELEMENTS)))
    return kind


def any_at(value: Column, path: Path, is_wanted: Callable[[Column], Column]) -> Column:
    """Whether any of the values at the end of the path is a wanted one."""
    if not path:
        return F.coalesce(is_wanted(value), F.lit(False))
    step, rest = path[0], path[1:]
    if step == ELEMENTS:
        return F.coalesce(
            F.exists(value, lambda column: any_at(column, rest, is_wanted)), F.lit(False)
        )
    return any_at(value.getField(step), rest, is_wanted)


def cast_parts(
    value: Column, found: T.DataType, wanted: T.DataType, written: type[T.DataType]
) -> Column:
    """The value with its parts of the type `written` cast to what is wanted there, null where
    they cannot be; parts that are not in `wanted` stay."""
    if isinstance(found, written):
        return value.try_cast(wanted)
    match found, wanted:
        case T.StructType(), T.StructType():
            parts = {item.name.lower(): item.dataType for item in wanted}
            fields = [
                cast_parts(
                    value.getField(item.name),
                    item.dataType,
                    parts.get(item.name.lower(), item.dataType),
                    written,
                ).alias(item.name)
                for item in found
            ]
            return F.when(value.isNotNull(), F.struct(*fields))
        case T.ArrayType(), T.ArrayType():
            return F.transform(
                value,
                lambda column: cast_parts(column, found.elementType, wanted.elementType, written),
            )
    return value


def _below(types: Mapping[Path, T.DataType], step: str) -> dict[Path, T.DataType]:
    return {path[1:]: kind for path, kind in types.items() if path and path[0] == step}
