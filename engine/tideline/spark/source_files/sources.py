"""Source files as rows: parquet, csv and json, a file at a time when one of them is bad.

1. Files are grouped so that one read fits all files of a group: parquet by the schema in the
   footer, csv by the header line.
2. Each group is read with an explicit schema, strictly: a row that does not fit fails the read
   (Spark's FAILFAST). Nothing is read twice while all is well. When rows are to be looked at one
   by one (`keeps_bad_rows`), those that do not fit come along in a column of their own.
3. Groups are brought to one schema, by name, as a write would evolve a table's schema. A group that
   clashes with those that arrived before it is at fault.
4. Every row gets its place in the order of arrival: file first, then position in the file.

Csv is read as RFC 4180 has it: quotes are doubled inside quotes, and so are line breaks allowed
there. A file is therefore read by one task from its beginning to its end, unless the option
`multiLine` is false.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema

from tideline.errors import ConfigError, InvalidDataError
from tideline.hudi.table.column_type import stored_schema
from tideline.hudi.table.missing_columns import MissingColumns
from tideline.hudi.table.schema import EvolvedSchema, evolve
from tideline.hudi.write.batch_rules import ARRIVAL
from tideline.spark.quoting import column_named
from tideline.spark.source_files.arrival import TEXT_FILES_MAX, with_arrival
from tideline.spark.source_files.column_inference import NO_ROLES, Roles
from tideline.spark.source_files.parquet_source import (
    allow_nanos,
    nanos_to_timestamps,
    read_parquet_schemas,
    without_untyped,
)
from tideline.spark.source_files.text_encoding import files_not_utf8
from tideline.spark.source_files.text_schema import first_line, group_by_header, text_schemas
from tideline.spark.source_files.written_values import (
    cast_written,
    csv_kept,
    csv_written,
    json_kept,
    json_written,
)
from tideline.storage.location import StoreLocation
from tideline.wording import counted

PARQUET = "parquet"
CSV = "csv"
_SEPARATORS = (";", "\t", "|")
BAD_RECORD = "_tideline_bad_record"
"""The text of a row that could not be read, null in all others; see `keeps_bad_rows`."""
SPARK_FAILURES = (PySparkException, Py4JError)
"""What Spark raises when a job fails; anything else is ours."""

# With it a path is taken as it is spelled. But a load of several paths then repeats the others for
# each one that looks like a pattern, so such a path is loaded alone.
_LITERAL_PATHS = {"__globPaths__": "false"}
_PATTERN = re.compile(r"[{}\[\]*?\\]")
_REASON_LENGTH_MAX = 300
_EXPECTED = {
    CSV: "it has no column: its first line is expected to name them",
    "json": "no line of it is a JSON object with a value: one object a line is expected, or one "
    'list of objects with the read option multiLine: "true"',
}
_OUT_OF_MEMORY = re.compile(
    "Java heap space|OutOfMemoryError|GC overhead limit exceeded|exit code (52|137)"
)
"""Also an executor that its container's limit, or Spark itself, has ended for it."""
_MORE_MEMORY = (
    "Spark has too little memory: raise spec.resources.executor.memory or, where Spark has no "
    "executors, that of its driver"
)


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """How to read: format, Spark's options, and types for the columns of text files.

    `declared` are the columns of the files, no more and no less. Without it columns are taken from
    the files; `known` then gives types (by name in lower case) and the others are inferred, those
    of keys and ordering columns, which `roles` names, strictly. Known types that nobody declared
    are in `inferred`, by name in lower case: values must keep their meaning in them.

    With `keeps_bad_rows` a row of a text file that does not fit comes with its text in `BAD_RECORD`
    and null in the columns at fault, instead of failing the read.
    """

    location: StoreLocation
    file_format: str
    options: Mapping[str, str] = field(default_factory=dict)
    declared: T.StructType | None = None
    known: Mapping[str, T.DataType] = field(default_factory=dict)
    roles: Roles = NO_ROLES
    inferred: frozenset[str] = frozenset()
    keeps_bad_rows: bool = False

    @property
    def is_strict_text(self) -> bool:
        """Whether rows that do not fit fail the read, as they do unless the options say else."""
        mode = _given(self.options, "mode") or "FAILFAST"
        return self.file_format != PARQUET and mode.upper() == "FAILFAST"

    @property
    def has_header(self) -> bool:
        """Whether it is csv that begins with the names of its columns."""
        given = _given(self.options, "header") or "true"
        return self.file_format == CSV and given.lower() == "true"

    @property
    def has_time_formats(self) -> bool:
        """Whether the options say how days or times are written."""
        return _given(self.options, "dateFormat", "timestampFormat") is not None

    @property
    def taken_as_written(self) -> dict[str, T.DataType]:
        """The types of the columns that only take values whose meaning stays."""
        if self.declared is not None or not self.is_strict_text:
            return {}
        types = {name: kind for name, kind in self.known.items() if name in self.inferred}
        if self.file_format != CSV:
            return json_kept(types)
        given = _given(self.options, "nanValue", "positiveInf", "negativeInf", "locale")
        is_zoned = _given(self.options, "timeZone") is not None
        return csv_kept(
            types,
            has_time_formats=self.has_time_formats or is_zoned,
            has_number_formats=given is not None,
        )

    @property
    def encoding(self) -> str:
        """How the bytes of csv are text."""
        return _given(self.options, "encoding", "charset") or "UTF-8"

    @property
    def is_utf8_csv(self) -> bool:
        """Whether it is csv whose bytes have to be UTF-8."""
        return self.file_format == CSV and self.encoding.upper() in ("UTF-8", "UTF8")

    def record_of(self, row: Column) -> Column:
        """A row, a struct of its columns, as the files would have it."""
        if self.file_format != CSV:
            return F.to_json(row)
        spaces = {"ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
        quotes = {"quote": self.quote, "escape": self.quote}
        return F.to_csv(row, {"sep": self.sep, **quotes, **spaces})

    @property
    def has_sep(self) -> bool:
        """Whether the options name the separator."""
        return _given(self.options, "sep", "delimiter") is not None

    @property
    def sep(self) -> str:
        return _given(self.options, "sep", "delimiter") or ","

    @property
    def quote(self) -> str:
        return _given(self.options, "quote") or '"'


@dataclass(frozen=True, slots=True)
class SourceGroup:
    """The rows of some files that one read fits."""

    frame: DataFrame
    paths: tuple[str, ...]


class UnreadableFilesError(InvalidDataError):
    """Some source files cannot be taken in; `reasons` by path."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        self.reasons = dict(reasons)
        path, reason = next(iter(self.reasons.items()))
        others = len(reasons) - 1
        more = f" (and {counted(others, 'more file')})" if others else ""
        super().__init__(f"source file cannot be taken in: {reason}{more}", path=path)


class ClashingFilesError(UnreadableFilesError):
    """Files that do not go with those before them; a table may say that these are at fault."""


def read_files(session: SparkSession, paths: Sequence[str], settings: SourceSettings) -> DataFrame:
    """The rows of the files `paths` (relative to the location, in order of arrival).

    The frame has the files' columns and `_tideline_sequence`. Raises UnreadableFilesError for what
    the footers or headers show already, and for files whose columns clash with those of files
    before them; other bad files fail the first action on the frame with one of SPARK_FAILURES.
    """
    return _union(read_groups(session, paths, settings))


def read_groups(
    session: SparkSession, paths: Sequence[str], settings: SourceSettings
) -> list[SourceGroup]:
    """The rows of the files in groups that one read fits, by the first file to arrive of each."""
    unopened = [path for path in paths if ":" in path.rpartition("/")[2]]
    if unopened:
        reason = "its name has a colon, and Spark opens no such file: rename it"
        raise UnreadableFilesError(dict.fromkeys(unopened, reason))
    if settings.file_format == PARQUET:
        return list(_read_parquet(session, paths, settings))
    if len(paths) > TEXT_FILES_MAX:
        raise ConfigError(f"at most {TEXT_FILES_MAX} text files at a time", value=len(paths))
    return list(_read_text(session, paths, settings))


def header_names(settings: SourceSettings, path: str) -> list[str]:
    """The columns of a csv file, in its order, as its first line has them."""
    if settings.declared is not None and not settings.has_header:
        return list(settings.declared.names)
    line = first_line(settings.location.open(), path)
    try:
        text = line.decode(settings.encoding, "replace").lstrip("\ufeff")
        return next(csv.reader([text], delimiter=settings.sep, quotechar=settings.quote), [])
    except (LookupError, TypeError, csv.Error):
        # Java has encodings, and Spark separators, that Python does not.
        return []


def failure_reason(error: Exception) -> str:
    """The innermost cause of a Spark failure that says something, without the stack trace."""
    # What a parser says begins with an empty line.
    lines = [line for line in str(error).splitlines() if line.strip()]
    causes = [line.partition("Caused by: ")[2] for line in lines if line.startswith("Caused by: ")]
    shown = next((cause for cause in reversed(causes) if ": " in cause), lines[0] if lines else "")
    text = re.sub(r"^([A-Za-z_$][\w$]*\.)+[\w$]+: ", "", shown)
    text = re.sub(r"^\[[A-Z0-9_.]+\] ", "", text)
    text = re.sub(r"\s*SQLSTATE: \w+\s*$", "", text)
    reason = " ".join(text.split())[:_REASON_LENGTH_MAX] or type(error).__name__
    return f"{reason}; {_MORE_MEMORY}" if _OUT_OF_MEMORY.search(str(error)) else reason


def with_value(error: InvalidDataError) -> str:
    """What an error says, with the value at fault where the message does not have it."""
    value = "" if error.value is None else str(error.value)
    return error.message if value in error.message else f"{error.message}: {value}"


def types_of(schema: pa.Schema | None) -> dict[str, T.DataType]:
    """Spark's types of an Arrow schema's columns, by name in lower case."""
    if schema is None:
        return {}
    return {
        column.name.lower(): from_arrow_type(column.type, prefer_timestamp_ntz=True)
        for column in schema
    }


def _read_parquet(
    session: SparkSession, paths: Sequence[str], settings: SourceSettings
) -> Iterator[SourceGroup]:
    schemas, unreadable = read_parquet_schemas(settings.location.open(), paths)
    if unreadable:
        raise UnreadableFilesError(unreadable)
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
            typed = without_untyped(arrived, schema, settings.known)
            yield SourceGroup(nanos_to_timestamps(typed, schema), tuple(group))


def _read_text(
    session: SparkSession, paths: Sequence[str], settings: SourceSettings
) -> Iterator[SourceGroup]:
    options = _text_options(settings)
    places = {path: place for place, path in enumerate(paths)}
    has_header = settings.has_header
    if settings.file_format == CSV and not has_header and settings.declared is None:
        raise ConfigError("csv files without a header line need a declared schema")
    groups = group_by_header(settings.location.open(), paths) if has_header else [list(paths)]
    parts = [part for group in groups for part in _loadable(group)]
    if settings.is_utf8_csv:
        foreign = files_not_utf8(session, settings.location, _loadable(paths), _LITERAL_PATHS)
        if foreign:
            raise UnreadableFilesError(foreign)
    if has_header:
        headers = [(group, header_names(settings, group[0])) for group in groups]
        for fault in (_glued, _repeated) if not settings.has_sep else (_repeated,):
            whys = [(group, fault(names)) for group, names in headers]
            wrong = {path: why for group, why in whys for path in group if why is not None}
            if wrong:
                raise UnreadableFilesError(wrong)
    uris = [[settings.location.spark_uri(path) for path in part] for part in parts]
    written = settings.taken_as_written
    as_written = csv_written(written) if settings.file_format == CSV else json_written(written)
    schemas = text_schemas(
        lambda part: _schema_reader(session, settings.file_format, options, part),
        lambda schema: _rows_reader(session, settings.file_format, options, schema),
        uris,
        settings.declared,
        {**settings.known, **as_written},
        has_header=has_header,
        roles=settings.roles,
        has_time_formats=settings.has_time_formats,
    )
    empty = [
        path
        for part, text in zip(parts, schemas, strict=True)
        if all(name == BAD_RECORD for name in text.schema.names)
        for path in part
    ]
    if empty:
        raise UnreadableFilesError(dict.fromkeys(empty, _EXPECTED[settings.file_format]))
    for part, part_uris, text in zip(parts, uris, schemas, strict=True):
        schema = _with_bad_record(text.schema) if settings.keeps_bad_rows else text.schema
        reader = _rows_reader(session, settings.file_format, options, schema)
        arrived = with_arrival(reader.load(part_uris), part_uris, [places[path] for path in part])
        if has_header:
            arrived = _without_carriage_return(arrived, text.schema)
        if written:
            bad_record = BAD_RECORD if settings.keeps_bad_rows else None
            arrived = cast_written(
                arrived, written, bad_record=bad_record, record_of=settings.record_of
            )
        yield SourceGroup(
            _only_declared(arrived, settings.declared).drop(*text.untyped), tuple(part)
        )


def _repeated(names: Sequence[str]) -> str | None:
    """Why a header that names a column twice makes its files bad: Spark would number them."""
    spelled: dict[str, str] = {}
    for name in filter(None, names):
        other = spelled.get(name.lower())
        if other is not None:
            both = f"{other} and {name}, which differ by case only"
            return f"line 1 names {f'column {name} twice' if name == other else f'columns {both}'}"
        spelled[name.lower()] = name
    return None


def _glued(names: Sequence[str]) -> str | None:
    """Why a header is bad whose only column has a name that another separator would divide."""
    sep = next(
        (separator for separator in _SEPARATORS if len(names) == 1 and separator in names[0]), None
    )
    if sep is None:
        return None
    return (
        f"line 1 names one column, {names[0]!r}: if {sep!r} separates its columns, name it in "
        "the read option sep"
    )


def _schema_reader(
    session: SparkSession, file_format: str, options: Mapping[str, str], uris: Sequence[str]
) -> DataFrameReader:
    reader = session.read.format(file_format).options(**options)
    # To look at the lines of a file that it does not split, Spark takes its path for a pattern, and
    # names no folder with a colon.
    is_unlisted = _PATTERN.search(uris[0]) or any(":" in uri.partition("/")[2] for uri in uris)
    return reader.option("multiLine", "false") if is_unlisted else reader


def _rows_reader(
    session: SparkSession, file_format: str, options: Mapping[str, str], schema: T.StructType
) -> DataFrameReader:
    """A reader of rows in a schema.

    Headers leave names out above the index of pandas, and where lines end in a separator: Spark
    names such columns itself, and then finds that the header has other names. All files of one read
    have the same header, so that nothing else is passed over with that.
    """
    unnamed = any(name == f"_c{place}" for place, name in enumerate(schema.names))
    given = {**options, "enforceSchema": "true"} if unnamed else options
    return session.read.format(file_format).options(**given).schema(schema)


def _loadable(paths: Sequence[str]) -> list[list[str]]:
    """The paths in lists that Spark can load at once."""
    plain = [path for path in paths if not _PATTERN.search(path)]
    alone = [[path] for path in paths if _PATTERN.search(path)]
    return [plain, *alone] if plain else alone


def _given(options: Mapping[str, str], *names: str) -> str | None:
    """The value of one of Spark's options, whose names have no case."""
    wanted = {name.lower() for name in names}
    return next((value for key, value in options.items() if key.lower() in wanted), None)


def _text_options(settings: SourceSettings) -> dict[str, str]:
    options = {"mode": "FAILFAST", **_LITERAL_PATHS}
    if settings.file_format == CSV:
        # With pruning, a row that is too short passes when its last column is not wanted.
        options |= {"header": "true", "enforceSchema": "false", "columnPruning": "false"}
        options |= {"multiLine": "true"}
        if _given(settings.options, "quote") != "":
            options["escape"] = settings.quote
    options |= dict(settings.options)
    if settings.keeps_bad_rows and settings.is_strict_text:
        options = {name: value for name, value in options.items() if name.lower() != "mode"}
        options |= {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": BAD_RECORD}
    return options


def _with_bad_record(schema: T.StructType) -> T.StructType:
    columns = [item for item in schema if item.name != BAD_RECORD]
    return T.StructType([*columns, T.StructField(BAD_RECORD, T.StringType())])


def _without_carriage_return(frame: DataFrame, schema: T.StructType) -> DataFrame:
    """The last column without the carriage return that ends the lines of a file whose header ends
    in a line feed alone; Spark decides by the first line."""
    if not schema.fields or not isinstance(schema.fields[-1].dataType, T.StringType):
        return frame
    last = schema.fields[-1].name
    value = column_named(last)
    return frame.withColumn(
        last,
        F.when(value.endswith("\r"), F.left(value, F.length(value) - 1)).otherwise(value),
    )


def _only_declared(frame: DataFrame, declared: T.StructType | None) -> DataFrame:
    """Drop columns of a csv header that the declared schema does not have."""
    if declared is None:
        return frame
    wanted = {name.lower() for name in (*declared.names, ARRIVAL, BAD_RECORD)}
    extra = [name for name in frame.columns if name.lower() not in wanted]
    return frame.drop(*extra)


def _union(parts: list[SourceGroup]) -> DataFrame:
    """All groups in one schema; columns that some lack are null there.

    Raises ClashingFilesError for the groups that do not go with those before them.
    """
    if len(parts) == 1:
        return parts[0].frame
    merged: EvolvedSchema | None = None
    clashing: dict[str, str] = {}
    for part in parts:
        try:
            schema = to_arrow_schema(part.frame.schema, timezone="UTC")
            known = merged.schema if merged else stored_schema(schema)
            merged = evolve(known, schema, missing=MissingColumns.NULL)
        except InvalidDataError as error:
            reason = f"it does not match the files before it: {with_value(error)}"
            clashing |= dict.fromkeys(part.paths, reason)
    if clashing or merged is None:
        raise ClashingFilesError(clashing)
    target = types_of(merged.schema)
    united: DataFrame | None = None
    for part in parts:
        cast = part.frame.select(*[_cast_scalar(item, target) for item in part.frame.schema])
        united = cast if united is None else united.unionByName(cast, allowMissingColumns=True)
    assert united is not None
    return united


def _cast_scalar(item: T.StructField, target: Mapping[str, T.DataType]) -> Column:
    """The column in its merged type; the union itself fills in the parts of structs.

    Hudi's own columns, which a table's export has, are no part of the merged schema. They are
    texts, regardless of what csv makes of their values.
    """
    column = column_named(item.name)
    wanted = target.get(item.name.lower(), T.StringType())
    nested = isinstance(wanted, T.StructType | T.ArrayType | T.MapType)
    return column if nested or wanted == item.dataType else column.cast(wanted).alias(item.name)
