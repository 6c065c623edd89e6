"""Columns of a frame as the types of a table: fields of structs by name, where Spark's cast goes by
their order."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T


def cast_by_name(column: Column, found: T.DataType, wanted: T.DataType) -> Column:
    """`column`, of type `found`, as `wanted`; fields that it lacks are null, others are dropped."""
    if found == wanted:
        return column
    match found, wanted:
        case T.StructType(), T.StructType():
            if found.names == wanted.names and not _holds_structs(found):
                return column.cast(wanted)
            parts = [_field(column, found, item).alias(item.name) for item in wanted]
            return F.when(column.isNotNull(), F.struct(*parts))
        case T.ArrayType(), T.ArrayType() if _holds_structs(found):
            kinds = found.elementType, wanted.elementType
            return F.transform(column, lambda item: cast_by_name(item, *kinds))
        case T.MapType(), T.MapType() if _holds_structs(found):
            kinds = found.valueType, wanted.valueType
            return F.transform_values(column, lambda _, item: cast_by_name(item, *kinds))
    return column.cast(wanted)


def _field(column: Column, found: T.StructType, wanted: T.StructField) -> Column:
    folded = {item.name.casefold(): item for item in reversed(found.fields)}
    exact = wanted.name in found.names
    item = found[wanted.name] if exact else folded.get(wanted.name.casefold())
    if item is None:
        return F.lit(None).cast(wanted.dataType)
    return cast_by_name(column.getField(item.name), item.dataType, wanted.dataType)


def _holds_structs(kind: T.DataType) -> bool:
    """Whether a struct is somewhere inside of the type."""
    match kind:
        case T.StructType():
            inside = [item.dataType for item in kind]
        case T.ArrayType():
            inside = [kind.elementType]
        case T.MapType():
            inside = [kind.valueType]
        case _:
            return False
    return any(isinstance(part, T.StructType) or _holds_structs(part) for part in inside)
