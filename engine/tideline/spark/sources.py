"""Source files as rows: parquet, csv and json, a file at a time when one of them is bad.

1. Files are grouped so that one read fits all files of a group: parquet by the schema in the
   footer, csv by the header line.
2. Each group is read with an explicit schema, strictly: a row that does not fit fails the read
   (Spark's FAILFAST). Nothing is read twice while all is well.
3. Groups are brought to one schema, by name, as a write would evolve a table's schema.
4. Every row gets its place in the order of arrival: file first, then position in the file.

When a read fails, `find_unreadable` halves the set of files until the bad ones are left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from tideline.errors import ConfigError, InvalidData
from tideline.spark.arrival import TEXT_FILES_MAX, with_arrival
from tideline.spark.parquet_source import (
    allow_nanos,
    nanos_to_timestamps,
    read_parquet_schemas,
)
from tideline.spark.quoting import column_named
from tideline.spark.text_schema import group_by_header, text_schemas
from tideline.storage.location import StoreLocation
from tideline.table.schema import EvolvedSchema, evolve

PARQUET = "parquet"
CSV = "csv"
SPARK_FAILURES = (PySparkException, Py4JError)
"""What Spark raises when a job fails; anything else is ours."""

# With it a path is taken as it is spelled. But a load of several paths then repeats the others for
# each one that looks like a pattern, so such a path is loaded alone.
_LITERAL_PATHS = {"__globPaths__": "false"}
_PATTERN = re.compile(r"[{}\[\]*?\\]")
_REASON_LENGTH_MAX = 300


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How to read: format, Spark's options, and types for the columns of text files.

    `declared` are the columns of the files, no more and no less. Without it columns are taken from
    the files; `known` then gives types (by name in lower case) and the others are inferred.
    """

    location: StoreLocation
    file_format: str
    options: Mapping[str, str] = field(default_factory=dict)
    declared: T.StructType | None = None
    known: Mapping[str, T.DataType] = field(default_factory=dict)


class UnreadableFiles(InvalidData):
    """Some source files cannot be read; `reasons` by path."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        path, reason = next(iter(self.reasons.items()))
        more = f" (and {len(reasons) - 1} more files)" if len(reasons) > 1 else ""
        super().__init__(f"Source file cannot be read: {reason}{more}", path=path)


def read_source(
    session: SparkSession,
    location: StoreLocation,
    file_format: str,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of one file, or of every file of that format below a folder, in path order.

    Hidden and empty files are passed over. Raises InvalidData when there is no file or one of them
    cannot be read, naming it.
    """
    parent, _, name = location.uri.rpartition("/")
    single = StoreLocation(parent, location.options)
    info = single.open().head(name) if name else None
    if info is not None:
        return read_files(session, [name], SourceSettings(single, file_format, options or {}))
    found = sorted(
        item.path
        for item in location.open().list()
        if item.size_bytes and not re.search(r"(^|/)[._]", item.path)
    )
    if not found:
        raise InvalidData("No source file here", path=location.uri)
    return read_files(session, found, SourceSettings(location, file_format, options or {}))


def read_files(session: SparkSession, paths: Sequence[str], settings: SourceSettings) -> DataFrame:
    """The rows of the files `paths` (relative to the location, in order of arrival).

    The frame has the files' columns and `_tideline_sequence`. Raises UnreadableFiles for what the
    footers or headers show already and InvalidData when the files' schemas clash; other bad files
    fail the first action on the frame with one of SPARK_FAILURES.
    """
    if settings.file_format != PARQUET and len(paths) > TEXT_FILES_MAX:
        raise ConfigError(f"At most {TEXT_FILES_MAX} text files at a time", value=len(paths))
    if settings.file_format == PARQUET:
        frames = _read_parquet(session, paths, settings)
    else:
        frames = _read_text(session, paths, settings)
    return _union(list(frames))


def find_unreadable(
    session: SparkSession, paths: Sequence[str], settings: SourceSettings
) -> dict[str, str]:
    """The files that cannot be read, and why: reads all of them, halving the set at a failure.

    Every file is read with the types that all of them together have.
    """
    with suppress(UnreadableFiles, *SPARK_FAILURES):
        together = read_files(session, paths, settings).schema
        types = {item.name.lower(): item.dataType for item in together}
        settings = replace(settings, known={**settings.known, **types})
    return _halve(session, paths, settings)


def failure_reason(error: Exception) -> str:
    """The innermost cause of a Spark failure that says something, without the stack trace."""
    lines = str(error).splitlines()
    causes = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    shown = next((cause for cause in reversed(causes) if ": " in cause), lines[0] if lines else "")
    text = re.sub(r"^([A-Za-z_$][\w$]*\.)+[\w$]+: ", "", shown)
    text = re.sub(r"^\[[A-Z0-9_.]+\] ", "", text)
    text = re.sub(r"\s*SQLSTATE: \w+\s*$", "", text)
    return " ".join(text.split())[:_REASON_LENGTH_MAX] or type(error).__name__


def types_of(schema: pa.Schema | None) -> dict[str, T.DataType]:
    """Spark's types of an Arrow schema's columns, by name in lower case."""
    if schema is None:
        return {}
    return {
        column.name.lower(): from_arrow_type(column.type, prefer_timestamp_ntz=True)
        for column in schema
    }


def _halve(session: SparkSession, paths: Sequence[str], settings: SourceSettings) -> dict[str, str]:
    reason = _read_failure(session, paths, settings)
    if reason is None:
        return {}
    if isinstance(reason, dict):
        rest = [path for path in paths if path not in reason]
        return reason | (_halve(session, rest, settings) if rest else {})
    if len(paths) == 1:
        return {paths[0]: reason}
    middle = len(paths) // 2
    return _halve(session, paths[:middle], settings) | _halve(session, paths[middle:], settings)


def _read_failure(
    session: SparkSession, paths: Sequence[str], settings: SourceSettings
) -> str | dict[str, str] | None:
    try:
        frame = read_files(session, paths, settings)
        frame.write.format("noop").mode("overwrite").save()
    except UnreadableFiles as error:
        return error.reasons
    except SPARK_FAILURES as error:
        return failure_reason(error)
    return None


def _read_parquet(
    session: SparkSession, paths: Sequence[str], settings: SourceSettings
) -> Iterator[DataFrame]:
    schemas, unreadable = read_parquet_schemas(settings.location.open(), paths)
    if unreadable:
        raise UnreadableFiles(unreadable)
    groups: dict[pa.Schema, list[str]] = {}
    for path, schema in schemas.items():
        groups.setdefault(schema, []).append(path)
    places = {path: place for place, path in enumerate(paths)}
    for schema, whole in groups.items():
        allow_nanos(session, schema)
        for group in _loadable(whole):
            uris = [settings.location.spark_uri(path) for path in group]
            reader = session.read.format(PARQUET).options(**settings.options, **_LITERAL_PATHS)
            arrived = with_arrival(reader.load(uris), uris, [places[path] for path in group])
            yield nanos_to_timestamps(arrived, schema)


def _read_text(
    session: SparkSession, paths: Sequence[str], settings: SourceSettings
) -> Iterator[DataFrame]:
    options = _text_options(settings)
    places = {path: place for place, path in enumerate(paths)}
    has_header = settings.file_format == CSV and options["header"].lower() == "true"
    if settings.file_format == CSV and not has_header and settings.declared is None:
        raise ConfigError("csv files without a header line need a declared schema")
    groups = group_by_header(settings.location.open(), paths) if has_header else [list(paths)]
    parts = [part for group in groups for part in _loadable(group)]
    uris = [[settings.location.spark_uri(path) for path in part] for part in parts]
    schemas = text_schemas(
        lambda: session.read.format(settings.file_format).options(**options),
        uris,
        settings.declared,
        settings.known,
        has_header=has_header,
    )
    for part, part_uris, text in zip(parts, uris, schemas, strict=True):
        reader = session.read.format(settings.file_format).options(**options).schema(text.schema)
        arrived = with_arrival(reader.load(part_uris), part_uris, [places[path] for path in part])
        yield _only_declared(arrived, settings.declared).drop(*text.untyped)


def _loadable(paths: Sequence[str]) -> list[list[str]]:
    """The paths in lists that Spark can load at once."""
    plain = [path for path in paths if not _PATTERN.search(path)]
    alone = [[path] for path in paths if _PATTERN.search(path)]
    return [plain, *alone] if plain else alone


def _text_options(settings: SourceSettings) -> dict[str, str]:
    options = {"mode": "FAILFAST", **_LITERAL_PATHS}
    if settings.file_format == CSV:
        # With pruning, a row that is too short passes when nobody wants its last column.
        options |= {"header": "true", "enforceSchema": "false", "columnPruning": "false"}
    return options | dict(settings.options)


def _only_declared(frame: DataFrame, declared: T.StructType | None) -> DataFrame:
    """Drop columns of a csv header that the declared schema does not have."""
    if declared is None:
        return frame
    wanted = {name.lower() for name in declared.names}
    extra = [name for name in frame.columns[:-1] if name.lower() not in wanted]
    return frame.drop(*extra)


def _union(frames: list[DataFrame]) -> DataFrame:
    """All groups in one schema; columns that some lack are null there."""
    if len(frames) == 1:
        return frames[0]
    merged: EvolvedSchema | None = None
    for frame in frames:
        schema = to_arrow_schema(frame.schema, timezone="UTC")
        merged = evolve(merged.schema if merged else schema, schema, null_missing_columns=True)
    assert merged is not None
    target = types_of(merged.schema)
    united: DataFrame | None = None
    for frame in frames:
        cast = frame.select(*[_cast_scalar(item, target) for item in frame.schema])
        united = cast if united is None else united.unionByName(cast, allowMissingColumns=True)
    assert united is not None
    return united


def _cast_scalar(item: T.StructField, target: Mapping[str, T.DataType]) -> Column:
    """The column in its merged type; the union itself fills in the parts of structs."""
    column = column_named(item.name)
    wanted = target[item.name.lower()]
    nested = isinstance(wanted, T.StructType | T.ArrayType | T.MapType)
    return column if nested or wanted == item.dataType else column.cast(wanted).alias(item.name)
