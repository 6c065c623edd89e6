"""Commit metadata: what a commit wrote, file by file, as JSON, or as an Avro record of Hudi 1.x.

The JSON has the keys, the key order and the layout (Jackson's pretty printer) of Hudi 0.14 on a
version 6 table. Reading accepts what any Hudi version wrote: keys Tideline has no field for are
kept in `unrecognised` and written back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tideline.bounded.parsing import faults_named, parse_json
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.hudi.timeline.column_range import ColumnRange, ColumnRanges

# What `prevCommit` says of a file group's first file (Hudi: HoodieWriteStat.NULL_COMMIT).
NO_PREVIOUS_COMMIT = "null"
SCHEMA_KEY = "schema"


@dataclass(frozen=True, slots=True)
class RuntimeStats:
    """How long writing one file took, milliseconds (Hudi: HoodieWriteStat.RuntimeStats)."""

    total_scan_time: int = 0
    total_upsert_time: int = 0
    total_create_time: int = 0


@dataclass(frozen=True, slots=True)
class WriteStat:
    """What was written to one file (Hudi: HoodieWriteStat, HoodieDeltaWriteStat).

    Names, order and defaults are Hudi's. `path` is relative to the table base. `log_version` being
    set makes it the stat of a log file, which then also has the fields up to `log_files`.
    `prev_base_file`, the name of the base file that was rewritten, is only written: what others
    wrote there stays in `unrecognised`. `column_ranges` are what the task that wrote the file
    says of its columns; they go into the metadata table, and into no commit.
    """

    file_id: str | None = None
    path: str | None = None
    cdc_stats: Mapping[str, int] | None = None
    prev_commit: str | None = None
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    num_inserts: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    temp_path: str | None = None
    partition_path: str | None = None
    total_log_records: int = 0
    total_log_files_compacted: int = 0
    total_log_size_compacted: int = 0
    total_updated_records_compacted: int = 0
    total_log_blocks: int = 0
    total_corrupt_log_block: int = 0
    total_rollback_blocks: int = 0
    file_size_in_bytes: int = 0
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    log_version: int | None = None
    log_offset: int = 0
    base_file: str | None = None
    log_files: tuple[str, ...] = ()
    prev_base_file: str | None = None
    unrecognised: Mapping[str, Any] = field(default_factory=dict)
    column_ranges: ColumnRanges | None = field(default=None, compare=False)

    def to_json_object(self) -> dict[str, Any]:
        """The stat as Hudi's JSON object, keys in Hudi's order."""
        empty = {} if self.log_version is None else dict([_NO_RECORD_STATS])
        return self._values() | empty | dict(self.unrecognised)

    def to_record(self) -> dict[str, Any]:
        """The stat as the Avro record of timeline layout 2.

        What a base file's stat does not say is null there, and what only Hudi 1.x says is as it was
        read. Other keys without a field in Hudi's schema are left out.
        """
        said = {**self.unrecognised, **self._values()}
        return self._values() | {
            key: said.get(key, default) for key, default in _ONLY_IN_RECORDS.items()
        }

    @classmethod
    def from_json_object(cls, stat: Mapping[str, Any]) -> WriteStat:
        """Read one stat. Raises CorruptTableError naming the key whose value has the wrong type."""
        values: dict[str, Any] = {}
        for key, value in stat.items():
            name = _NAMES.get(key)
            if name is None:
                if (key, value) != _NO_RECORD_STATS:
                    values.setdefault("unrecognised", {})[key] = value
            elif value is not None:
                # Texts and numbers as they are.
                plain = type(value) is _PLAIN.get(name)
                values[name] = value if plain else _READERS[name](key, value)
        return cls(**values)

    def to_report(self) -> dict[str, Any]:
        """As a task sends it to the driver: as it is stored, and the ranges of columns."""
        ranges = self.column_ranges
        if ranges is None:
            return self.to_json_object()
        return self.to_json_object() | {
            _RANGES: {name: found.to_json_object() for name, found in ranges.items()}
        }

    @classmethod
    def from_report(cls, report: Mapping[str, Any]) -> WriteStat:
        """What `to_report` sent."""
        ranges = report.get(_RANGES)
        stat = cls.from_json_object({key: report[key] for key in report if key != _RANGES})
        if ranges is None:
            return stat
        read = {name: ColumnRange.from_json_object(found) for name, found in ranges.items()}
        return replace(stat, column_ranges=read)

    def _values(self) -> dict[str, Any]:
        """The fields by Hudi's keys, in its order; those of log files only for a log file."""
        values: dict[str, Any] = {key: getattr(self, name) for name, key in _BASE_KEYS.items()}
        if self.runtime_stats is not None:
            stats = self.runtime_stats
            values["runtimeStats"] = {key: getattr(stats, name) for name, key in _TIMES.items()}
        if self.log_version is not None:
            values |= {key: getattr(self, name) for name, key in _LOG_KEYS.items()}
            values["logFiles"] = list(self.log_files)
        if self.prev_base_file is not None:
            values["prevBaseFile"] = self.prev_base_file
        return values


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """All that a commit is known by (Hudi: HoodieCommitMetadata, HoodieReplaceCommitMetadata).

    Keys of the mappings are partition paths, `""` for a table without partitions.
    `partition_to_replace_file_ids` is None but for replacecommits.
    """

    partition_to_write_stats: Mapping[str, tuple[WriteStat, ...]] = field(default_factory=dict)
    operation_type: str = "UNKNOWN"
    extra_metadata: Mapping[str, str] = field(default_factory=dict)
    compacted: bool = False
    partition_to_replace_file_ids: Mapping[str, tuple[str, ...]] | None = None

    @classmethod
    def of_stats(
        cls,
        stats: Iterable[WriteStat],
        *,
        operation_type: str,
        extra_metadata: Mapping[str, str],
        compacted: bool = False,
        replaced: Mapping[str, Iterable[str]] | None = None,
    ) -> CommitMetadata:
        """The metadata of a commit that wrote `stats` and replaced file ids, by partition."""
        grouped: dict[str, list[WriteStat]] = {}
        for stat in sorted(stats, key=lambda stat: (stat.partition_path or "", stat.path or "")):
            grouped.setdefault(stat.partition_path or "", []).append(stat)
        return cls(
            partition_to_write_stats={name: tuple(found) for name, found in grouped.items()},
            operation_type=operation_type,
            extra_metadata=dict(extra_metadata),
            compacted=compacted,
            partition_to_replace_file_ids=None
            if replaced is None
            else {partition: tuple(ids) for partition, ids in replaced.items()},
        )

    @property
    def schema_json(self) -> str | None:
        """The commit's writer schema (Avro JSON, without meta fields), None when it has none."""
        return self.extra_metadata.get(SCHEMA_KEY) or None

    @property
    def write_stats(self) -> tuple[WriteStat, ...]:
        """The stats of all partitions."""
        return tuple(stat for stats in self.partition_to_write_stats.values() for stat in stats)

    def encode(self) -> bytes:
        """The JSON Hudi would write, UTF-8."""
        return _pretty(self._content(WriteStat.to_json_object)).encode()

    def to_record(self) -> dict[str, Any]:
        """The Avro record of timeline layout 2: HoodieReplaceCommitMetadata where file groups are
        replaced, else HoodieCommitMetadata. Its field `version` is null, as in Hudi."""
        return {**self._content(WriteStat.to_record), "version": None}

    @classmethod
    def decode(cls, body: bytes, *, path: str, instant: object = None) -> CommitMetadata:
        """Read the JSON of any Hudi version.

        Raises CorruptTableError naming `path` and `instant` when the body is cut short or no commit
        metadata, UnsupportedTableError when it exceeds the limits on metadata.
        """
        with _naming(path, instant):
            content = parse_json(body, path=path, what="commit metadata")
            if not isinstance(content, dict):
                raise CorruptTableError("commit metadata is not a JSON object")
            with faults_named("commit metadata is not understood"):
                return _from_content(content)

    @classmethod
    def from_record(
        cls, record: Mapping[str, Any], *, path: str, instant: object = None
    ) -> CommitMetadata:
        """The metadata of an Avro record, as timeline layout 2 and archives hold it.

        Its stats have a value, perhaps null, for every field that Hudi knows; nulls say nothing.
        Raises CorruptTableError naming `path` and `instant` for values of wrong types.
        """
        with _naming(path, instant), faults_named("commit metadata is not understood"):
            stats = {
                partition: [_without_nulls(stat) for stat in in_partition or ()]
                for partition, in_partition in (record.get("partitionToWriteStats") or {}).items()
            }
            return _from_content({**record, "partitionToWriteStats": stats})

    def _content(self, print_stat: Callable[[WriteStat], dict[str, Any]]) -> dict[str, Any]:
        """The metadata by Hudi's keys, in the order of its JSON."""
        content: dict[str, Any] = {
            "partitionToWriteStats": {
                partition: [print_stat(stat) for stat in stats]
                for partition, stats in self.partition_to_write_stats.items()
            },
            "compacted": self.compacted,
            "extraMetadata": dict(self.extra_metadata),
            "operationType": self.operation_type,
        }
        if self.partition_to_replace_file_ids is not None:
            content["partitionToReplaceFileIds"] = {
                partition: list(ids)
                for partition, ids in self.partition_to_replace_file_ids.items()
            }
        return content


@contextmanager
def _naming(path: str, instant: object) -> Iterator[None]:
    """Within, errors about the content name where it stands."""
    try:
        yield
    except (CorruptTableError, UnsupportedTableError) as error:
        raise type(error)(error.message, path=path, instant=instant, value=error.value) from error


def _without_nulls(stat: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stat.items() if value is not None}


def _from_content(content: Mapping[str, Any]) -> CommitMetadata:
    stats = _mapping("partitionToWriteStats", content.get("partitionToWriteStats"))
    extra = _mapping("extraMetadata", content.get("extraMetadata"))
    replaced = content.get("partitionToReplaceFileIds")
    return CommitMetadata(
        partition_to_write_stats={
            partition: tuple(
                WriteStat.from_json_object(_mapping("write stat", stat))
                for stat in _sequence(partition, in_partition)
            )
            for partition, in_partition in stats.items()
        },
        operation_type=_text("operationType", content.get("operationType") or "UNKNOWN"),
        extra_metadata={
            key: _text(key, value) for key, value in extra.items() if value is not None
        },
        compacted=bool(content.get("compacted")),
        partition_to_replace_file_ids=None
        if replaced is None
        else {
            partition: _texts(partition, ids)
            for partition, ids in _mapping("partitionToReplaceFileIds", replaced).items()
        },
    )


def _mapping(key: str, value: Any) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise CorruptTableError(f"commit metadata: {key} is not a JSON object", value=value)
    return value


def _sequence(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise CorruptTableError(f"commit metadata: {key} is not a JSON array", value=value)
    return value


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise CorruptTableError(f"commit metadata: {key} is not a string", value=value)
    return value


def _integer(key: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise CorruptTableError(f"commit metadata: {key} is not an integer", value=value)
    return value


def _texts(key: str, value: Any) -> tuple[str, ...]:
    return tuple(_text(key, item) for item in _sequence(key, value))


def _cdc_stats(key: str, value: Any) -> Mapping[str, int]:
    return {path: _integer(key, size) for path, size in _mapping(key, value).items()}


def _runtime_stats(key: str, value: Any) -> RuntimeStats:
    times = _mapping(key, value)
    return RuntimeStats(
        **{name: _integer(time, times.get(time) or 0) for name, time in _TIMES.items()}
    )


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


_TIMES = {item.name: _camel_case(item.name) for item in fields(RuntimeStats)}
_KEYS = {
    item.name: _camel_case(item.name)
    for item in fields(WriteStat)
    if item.name not in ("unrecognised", "prev_base_file", "column_ranges")
}
_RANGES = "columnRanges"
_NAMES = {key: name for name, key in _KEYS.items()}
# What Hudi 0.14 writes for an empty Option in the stats of a log file.
_NO_RECORD_STATS = ("recordsStats", {"val": None})
_ONLY_IN_RECORDS = {"prevBaseFile": None, "totalLogReadTimeMs": 0, "numUpdates": 0}
"""Fields of Avro stats that have none here, with what Hudi writes where nothing is known."""
_LOG_FIELDS = ("log_version", "log_offset", "base_file", "log_files")
_LOG_KEYS = {name: _KEYS[name] for name in _LOG_FIELDS}
_BASE_KEYS = {name: key for name, key in _KEYS.items() if name not in _LOG_KEYS}
_READERS = {
    name: _integer if name.startswith(("num_", "total_", "min_", "max_")) else _text
    for name in _KEYS
} | {
    "cdc_stats": _cdc_stats,
    "file_size_in_bytes": _integer,
    "runtime_stats": _runtime_stats,
    "log_version": _integer,
    "log_offset": _integer,
    "log_files": _texts,
}
_PLAIN = {
    name: int if reader is _integer else str
    for name, reader in _READERS.items()
    if reader in (_integer, _text)
}


def _pretty(value: Any, indent: str = "") -> str:
    """JSON in the layout of Jackson's default pretty printer."""
    deeper = indent + "  "
    if isinstance(value, Mapping):
        if not value:
            return "{ }"
        entries = (
            f"{deeper}{json.dumps(key, ensure_ascii=False)} : {_pretty(item, deeper)}"
            for key, item in value.items()
        )
        return "{\n" + ",\n".join(entries) + f"\n{indent}}}"
    if isinstance(value, list | tuple):
        if not value:
            return "[ ]"
        return "[ " + ", ".join(_pretty(item, indent) for item in value) + " ]"
    return json.dumps(value, ensure_ascii=False)
