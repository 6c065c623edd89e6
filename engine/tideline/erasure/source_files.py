"""The landing prefixes of a table: source files with rows that match, and rows set aside from them.

1. Everything below a prefix is listed. Parquet, csv and json files, by their names, are read as an
   ingest reads them, whether they were taken in already or not; of rows that were set aside, from
   files or from a stream, the records are read. What was not read is named.
2. Only when asked to, files that hold rows are deleted, whole: all else in them goes as well. A
   file that was replaced since it was read stays. Died in between: the next search finds the rest.

An ingest takes a file in that it finds; so files go before the table's rows do.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from tideline.erasure.report import LandingFile, LandingSearch, UnreadFile
from tideline.errors import ConfigError
from tideline.hudi.table.location_conflict import find_table_around
from tideline.spark.read.matching import count_in_records
from tideline.spark.session.store_connection import connect_store
from tideline.spark.source_files.matching_files import MatchingFiles, count_in_files
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.location import StoreLocation
from tideline.storage.nested_tables import nested_tables, root_around
from tideline.storage.object_store import ObjectInfo, ObjectStore
from tideline.wording import counted

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_QUARANTINE = "_quarantine/"
_ROWS, _NOTE = ".rows.jsonl", ".json"
_COMPRESSIONS = ("", ".gz", ".bz2", ".zst")
_FORMATS = {
    "parquet": (".parquet",),
    "csv": tuple(f".csv{ending}" for ending in _COMPRESSIONS),
    "json": tuple(
        f"{name}{ending}" for name in (".json", ".jsonl", ".ndjson") for ending in _COMPRESSIONS
    ),
}
_OF_STREAMS = re.compile(r".*/(\d{20}-\d{20}|[0-9a-f]{16}(-unseen)?|copy-[0-9a-f]{16})\.jsonl")
"""Rows set aside from a range of a topic, of a log and of a table's first copy."""
_VERSIONS_OF_A_ROW = ("before", "after", "data", "old")
"""Members of a change event that are rows, in the forms of Debezium, Maxwell and Canal."""


@dataclass(frozen=True, slots=True)
class LandingRequest:
    """The landing prefixes to search; `deletes_files` that hold rows which match."""

    places: tuple[StoreLocation, ...] = ()
    deletes_files: bool = False

    @classmethod
    def of(cls, uris: Iterable[str], options: Mapping[str, str], *, deletes_files: bool) -> Self:
        """Prefixes at the store of a table, whose `options` these are."""
        return cls(tuple(StoreLocation.of(uri, dict(options)) for uri in uris), deletes_files)

    def search(
        self, spark: SparkSession, where: str | Column, columns: pa.Schema, *, is_preview: bool
    ) -> tuple[LandingSearch, ...]:
        """Search each, then delete files where that is wanted and this is no preview.

        Text has the types of `columns`. Raises ConfigError for a folder of a table, before
        anything is deleted.
        """
        for place in self.places:
            _refuse_table(place)
        found = []
        for place in self.places:
            connect_store(spark, place)
            searched = search_landing(spark, place, where, columns)
            deletes = self.deletes_files and not is_preview
            found.append(delete_files(place, searched) if deletes else searched)
        return tuple(found)


NO_LANDING = LandingRequest()


def search_landing(
    spark: SparkSession, landing: StoreLocation, where: str | Column, columns: pa.Schema
) -> LandingSearch:
    """What of a landing prefix holds rows that match; text has the types of `columns`."""
    store = landing.open()
    objects = {info.path: info for info in store.list()}
    tables = nested_tables(objects)
    unread = dict.fromkeys(tables, "a table, which has an erasure of its own")
    by_format: dict[str, list[str]] = {}
    set_aside: list[str] = []
    for path, info in sorted(objects.items()):
        if root_around(path, tables) is not None or _holds_nothing(info):
            continue
        if path.startswith(_QUARANTINE):
            set_aside += [path] if path.endswith(_ROWS) else []
            continue
        if is_of_stream(path):
            set_aside.append(path)
            continue
        kind = next(
            (kind for kind, names in _FORMATS.items() if path.lower().endswith(names)), None
        )
        if kind is None:
            unread[path] = "it is named as none of parquet, csv and json"
        elif path.rpartition("/")[2].startswith((".", "_")):
            unread[path] = "Spark does not read files whose names begin so"
        else:
            by_format.setdefault(kind, []).append(path)
    found = [
        count_in_files(spark, landing, kind, paths, columns, where)
        for kind, paths in by_format.items()
    ]
    found.append(_count_set_aside(spark, store, set_aside, where, columns))
    held = {path: rows for entry in found for path, rows in entry.rows.items()}
    for matching_files in found:
        unread |= matching_files.unread
    return LandingSearch(
        landing.uri,
        tuple(LandingFile(path, rows, objects[path]) for path, rows in sorted(held.items())),
        tuple(UnreadFile(path, reason) for path, reason in sorted(unread.items())),
        files_read=sum(map(len, by_format.values())) + len(set_aside),
        notes=tuple(path for path in objects if _is_note(path)),
    )


def is_of_stream(path: str) -> bool:
    """Whether an object is named as the rows are that an ingest sets aside from a stream."""
    return _OF_STREAMS.fullmatch(path) is not None


def delete_files(landing: StoreLocation, found: LandingSearch) -> LandingSearch:
    """Delete the files that hold rows, with the notes that say why they were kept out."""
    store = landing.open()
    seen = {file.path: file.seen for file in found.holding}
    # Listed again: asked for one object, S3 gives whole seconds.
    now = {info.path: info for info in store.list()} if seen else {}

    def objection(path: str) -> str | None:
        info, later = seen.get(path), now.get(path)
        is_same = info is None or later is None or _identity(info) == _identity(later)
        return None if is_same else "it was replaced since it was read"

    scope = DeleteScope(store, "erasure", objection)
    kept = scope.refusals(seen)
    deleted = [path for path in seen if path not in kept]
    notes = [note for note in found.notes if _noted(note) in set(deleted)]
    scope.remove_many([*deleted, *notes])
    unread = (*found.unread, *(UnreadFile(path, reason) for path, reason in kept.items()))
    return replace(found, deleted=tuple(deleted), unread=unread)


def _count_set_aside(
    spark: SparkSession,
    store: ObjectStore,
    paths: Iterable[str],
    where: str | Column,
    columns: pa.Schema,
) -> MatchingFiles:
    """In the objects with rows that an ingest set aside: a JSON object a line, with `record`."""
    found = MatchingFiles()
    records: list[tuple[str, str]] = []
    for path in paths:
        lines = [_rows_in(line) for line in store.get(path).splitlines() if line.strip()]
        records += [(path, json.dumps(row)) for rows in lines if rows is not None for row in rows]
        nameless = lines.count(None)
        if nameless:
            why = f"{counted(nameless, 'row')} whose text does not say which column is which"
            found.unread[path] = why
    found.rows |= count_in_records(spark, where, columns, records)
    return found


def _rows_in(line: bytes) -> list[Any] | None:
    """The rows of a record set aside, where it is a JSON object."""
    try:
        record = json.loads(str(json.loads(line)["record"]))
    except (ValueError, KeyError, TypeError):
        return None
    return list(_rows_of(record)) if isinstance(record, dict) else None


def _rows_of(record: Mapping[str, Any]) -> Iterator[Any]:
    """It itself, and where it may be a change event, the versions of a row in it."""
    yield record
    payload = record.get("payload")
    if isinstance(payload, dict):
        yield from _rows_of(payload)
    for name in _VERSIONS_OF_A_ROW:
        version = record.get(name)
        yield from (
            row
            for row in (version if isinstance(version, list) else [version])
            if isinstance(row, dict)
        )


def _refuse_table(landing: StoreLocation) -> None:
    """Raise ConfigError for the folder of a table and for one in it."""
    around = find_table_around(landing)
    if around is not None:
        raise ConfigError(
            f"this is in {around}, and no landing prefix: name the folder that files land in",
            path=landing.uri,
        )


def _holds_nothing(info: ObjectInfo) -> bool:
    name = info.path.rpartition("/")[2]
    return not info.size_bytes or name.endswith(".crc")


def _is_note(path: str) -> bool:
    return path.startswith(_QUARANTINE) and path.endswith(_NOTE)


def _noted(note: str) -> str:
    """The file that a note is about: `_quarantine/<path>.<identity>.json`."""
    return note.removeprefix(_QUARANTINE).removesuffix(_NOTE).rpartition(".")[0]


def _identity(info: ObjectInfo) -> tuple[int, int]:
    return info.size_bytes, info.modified_ms
