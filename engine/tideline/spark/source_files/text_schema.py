"""Schemas of text files: names from the files, types declared, known, or inferred.

Inference is the last resort because it sees only one batch: whole numbers become long, so that a
later, larger number still fits, and a column in which nothing has a type is left out. What Spark
infers stands only where no value changes its meaning
(`tideline.spark.source_files.column_inference`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrameReader
from pyspark.sql import types as T

from tideline.spark.source_files.column_inference import (
    NO_ROLES,
    Kinds,
    Roles,
    csv_kinds,
    csv_type,
    json_kinds,
    json_type,
    needs_kinds,
    paths_with_long_numbers,
)
from tideline.spark.source_files.nested_numbers import Path, paths_to, with_types
from tideline.storage.object_store import ObjectStore

_HEADER_BYTES_MAX = 64 * 1024
_COMPRESSED = (".bz2", ".zst")
_GZIP_WINDOW = 31
_OWN_PREFIX = "_tideline_"

OpenReader = Callable[[Sequence[str]], DataFrameReader]
"""A reader to look at the columns of some URIs with."""
OpenRows = Callable[[T.StructType], DataFrameReader]
"""A reader of the rows, in a schema."""
_INEXACT = T.DoubleType | T.DecimalType
"""What Spark proposes for numbers with many digits."""
_NUMBERS: list[T.DataType] = [T.LongType(), T.DoubleType()]
_TIMES: list[T.DataType] = [T.DateType(), T.TimestampType()]


def group_by_header(store: ObjectStore, paths: Sequence[str]) -> list[list[str]]:
    """Paths in groups with byte-equal first lines; each file with an unseen compression alone."""
    groups: dict[bytes, list[str]] = {}
    for path in paths:
        groups.setdefault(first_line(store, path), []).append(path)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class TextSchema:
    """The schema to read one part with, and the columns to leave out afterwards."""

    schema: T.StructType
    untyped: tuple[str, ...] = ()


def text_schemas(
    open_reader: OpenReader,
    open_rows: OpenRows,
    parts: Sequence[Sequence[str]],
    declared: T.StructType | None,
    known: Mapping[str, T.DataType],
    *,
    has_header: bool,
    roles: Roles = NO_ROLES,
    has_time_formats: bool = False,
) -> list[TextSchema]:
    """How to read each part (a list of URIs); a column has one type in all of them.

    `has_header` is true for csv with a header, which names the columns and fixes their order.
    """
    if not has_header:
        if declared is not None:
            return [TextSchema(declared)] * len(parts)
        return [_json_schema(open_reader, open_rows, part, known, roles) for part in parts]
    names = [open_reader(part).load([part[0]]).columns for part in parts]
    if declared is not None:
        types = {item.name.lower(): item.dataType for item in declared}
        return [_positional(row, types, untyped=False) for row in names]
    missing = _infer_missing(open_reader, open_rows, parts, names, known)
    types = {
        **known,
        **{
            name: csv_type(name, kind, kinds, roles, has_time_formats=has_time_formats)
            for name, (kind, kinds) in missing.items()
        },
    }
    return [_positional(row, types, untyped=True) for row in names]


def _positional(
    names: Sequence[str], types: Mapping[str, T.DataType], *, untyped: bool
) -> TextSchema:
    """All columns of a header; those without a type are read as text."""
    schema = T.StructType(
        [T.StructField(name, types.get(name.lower(), T.StringType())) for name in names]
    )
    left_out = tuple(name for name in names if name.lower() not in types) if untyped else ()
    return TextSchema(schema, left_out)


def _infer_missing(
    open_reader: OpenReader,
    open_rows: OpenRows,
    parts: Sequence[Sequence[str]],
    names: Sequence[Sequence[str]],
    known: Mapping[str, T.DataType],
) -> dict[str, tuple[T.DataType, Kinds]]:
    """Types that Spark proposes for the columns that have none yet, and the kinds of their values,
    in all parts that have any."""
    proposed: dict[str, tuple[T.DataType, Kinds]] = {}
    for part, row in zip(parts, names, strict=True):
        missing = [name for name in row if name.lower() not in known]
        if not missing:
            continue
        inferred = open_reader(part).option("inferSchema", "true").load(list(part)).schema
        as_text = T.StructType([T.StructField(name, T.StringType()) for name in row])
        found = csv_kinds(open_rows(as_text).load(list(part)), missing)
        for name in missing:
            # A column with nothing in it looks like text.
            if not found[name].total:
                continue
            kind = _long_for_int(inferred[name].dataType)
            low = name.lower()
            before, kinds = proposed.get(low, (kind, Kinds()))
            kinds.add(found[name])
            proposed[low] = (_wider(before, kind), kinds)
    return proposed


def _wider(left: T.DataType, right: T.DataType) -> T.DataType:
    """A type that the text of both can be read as."""
    if left == right:
        return left
    for rank in (_NUMBERS, _TIMES):
        if left in rank and right in rank:
            return max(left, right, key=rank.index)
    return T.StringType()


def _json_schema(
    open_reader: OpenReader,
    open_rows: OpenRows,
    part: Sequence[str],
    known: Mapping[str, T.DataType],
    roles: Roles,
) -> TextSchema:
    """The columns that the files have, with the known types in them.

    What has no type yet (nulls, empty lists and objects, at any depth) is left out, but where its
    type is known: then an empty list is one, and no null.
    """
    with_values = open_reader(part).option("dropFieldIfAllNull", "true")
    found = with_values.load(list(part)).schema
    if not _covers(_parts_of(found), known):
        found = _with_known_parts(found, open_reader(part).load(list(part)).schema, known)
    looked_at = [
        item.name
        for item in found
        if item.name.lower() not in known
        and not item.name.startswith(_OWN_PREFIX)
        and needs_kinds(item.dataType, item.name, roles)
    ]
    decided: dict[str, T.DataType] = {}
    if looked_at:
        as_values = T.StructType([T.StructField(name, T.VariantType()) for name in looked_at])
        rows = open_rows(as_values).load(list(part))
        for name, kinds in json_kinds(rows, looked_at).items():
            decided[name.lower()] = json_type(name, found[name].dataType, kinds, roles)
    own = [item for item in found if not item.name.startswith(_OWN_PREFIX)]
    undecided = T.StructType([item for item in own if item.name.lower() not in roles.ordering])
    inexact = _inexact_numbers(open_rows, part, _typed(undecided, {**known, **decided}), known)
    return TextSchema(_typed(found, {**known, **decided, **inexact}))


def _inexact_numbers(
    open_rows: OpenRows,
    part: Sequence[str],
    schema: T.StructType,
    known: Mapping[str, T.DataType],
) -> dict[str, T.DataType]:
    """Types with text where a double, at any depth and not known yet, would change a number."""
    stated = {path for name, kind in known.items() for path in _paths_in(name, kind)}
    new = [
        path
        for path in paths_to(_INEXACT, schema)
        if tuple(step.lower() for step in path) not in stated
    ]
    if not new:
        return {}
    as_text = with_types(schema, dict.fromkeys(new, T.StringType()))
    assert isinstance(as_text, T.StructType)
    names = {path[0] for path in new}
    looked_at = T.StructType([item for item in as_text if item.name in names])
    # Values of other kinds are none of what is looked for.
    rows = open_rows(looked_at).option("mode", "PERMISSIVE").load(list(part))
    long = dict.fromkeys(paths_with_long_numbers(rows, new), T.StringType())
    changed = with_types(schema, long)
    assert isinstance(changed, T.StructType)
    return {
        item.name.lower(): item.dataType
        for item in changed
        if any(path[0] == item.name for path in long)
    }


def _paths_in(name: str, kind: T.DataType) -> Iterator[Path]:
    lower = T.StructType([T.StructField(name, kind)])
    for path in paths_to(_INEXACT, lower):
        yield tuple(step.lower() for step in path)


def _covers(found: Mapping[str, T.DataType], known: Mapping[str, T.DataType]) -> bool:
    """Whether everything known was found, so that nothing known can have been left out."""
    return all(
        name in found and _covers(_parts_of(found[name]), _parts_of(kind))
        for name, kind in known.items()
    )


def _parts_of(kind: T.DataType) -> dict[str, T.DataType]:
    """The fields, by name in lower case, of a struct or of the structs in a list."""
    element = kind.elementType if isinstance(kind, T.ArrayType) else kind
    if not isinstance(element, T.StructType):
        return {}
    return {item.name.lower(): item.dataType for item in element}


def _with_known_parts(
    found: T.StructType, present: T.StructType, known: Mapping[str, T.DataType]
) -> T.StructType:
    """`found` and those of the fields `present` whose type is known."""
    kept = {item.name: item.dataType for item in found}
    fields = []
    for item in present:
        own, wanted = kept.get(item.name), known.get(item.name.lower())
        if own is None and wanted is not None:
            fields.append(T.StructField(item.name, wanted))
        elif own is not None:
            fields.append(T.StructField(item.name, _with_parts(own, item.dataType, wanted)))
    return T.StructType(fields)


def _with_parts(found: T.DataType, present: T.DataType, known: T.DataType | None) -> T.DataType:
    match found, present, known:
        case T.StructType(), T.StructType(), T.StructType():
            return _with_known_parts(found, present, _parts_of(known))
        case T.ArrayType(), T.ArrayType(), T.ArrayType():
            parts = found.elementType, present.elementType, known.elementType
            return T.ArrayType(_with_parts(*parts))
    return found


def _typed(schema: T.StructType, known: Mapping[str, T.DataType]) -> T.StructType:
    """An inferred schema with the known types in it, without columns that have no type."""
    fields = []
    for item in schema:
        kind = _as_known(item.dataType, known.get(item.name.lower()))
        if not isinstance(kind, T.NullType):
            fields.append(T.StructField(item.name, kind))
    return T.StructType(fields)


def _as_known(found: T.DataType, known: T.DataType | None) -> T.DataType:
    """The known type where there is one, part by part; parts only the files have stay."""
    if isinstance(found, T.StructType) and isinstance(known, T.StructType):
        parts = {item.name.lower(): item.dataType for item in known}
        fields = [
            T.StructField(item.name, _as_known(item.dataType, parts.get(item.name.lower())))
            for item in found
        ]
        return T.StructType(fields)
    if isinstance(found, T.ArrayType) and isinstance(known, T.ArrayType):
        return T.ArrayType(_as_known(found.elementType, known.elementType))
    return known or found


def _long_for_int(kind: T.DataType) -> T.DataType:
    return T.LongType() if isinstance(kind, T.IntegerType) else kind


def first_line(store: ObjectStore, path: str) -> bytes:
    """The first line of a file; a mark of its own for one whose compression is not looked into."""
    if path.lower().endswith(_COMPRESSED):
        return b"\0" + path.encode()
    start = store.get_range(path, offset=0, length=_HEADER_BYTES_MAX)
    if path.lower().endswith(".gz"):
        try:
            start = zlib.decompressobj(_GZIP_WINDOW).decompress(start, _HEADER_BYTES_MAX)
        except zlib.error:
            return b"\0" + path.encode()
    return start.partition(b"\n")[0].rstrip(b"\r")
