"""The landing prefixes of a table: source files with rows that match, and rows set aside from them.

1. Everything below a prefix is listed. Parquet, csv and json files, by their names, are read as an
   ingest reads them, whether they were taken in already or not; of rows in the quarantine the
   records are read. What was not read is named.
2. Only when asked to, files that hold rows are deleted, whole: all else in them goes as well. A
   file that was replaced since it was read stays. Died in between: the next search finds the rest.

An ingest takes a file in that it finds; so files go before the table's rows do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from tideline.erasure.report import LandingFile, LandingSearch, UnreadFile
from tideline.errors import ConfigError
from tideline.spark.read.matching import count_in_records
from tideline.spark.source_files.matching_files import MatchingFiles, count_in_files
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.location import StoreLocation
from tideline.storage.nested_tables import CONTROL_FOLDER, nested_tables, root_around
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


def search_landing(
    spark: SparkSession, landing: StoreLocation, where: str | Column, columns: pa.Schema
) -> LandingSearch:
    """What of a landing prefix holds rows that match; text has the types of `columns`.

    Raises ConfigError for the folder of a table.
    """
    store = landing.open()
    objects = {info.path: info for info in store.list()}
    if any(path.startswith(f"{CONTROL_FOLDER}/") for path in objects):
        raise ConfigError(
            "this is a table, and no landing prefix: name the folder that files land in",
            path=landing.uri,
        )
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
        texts = [_record(line) for line in store.get(path).splitlines() if line.strip()]
        records += [(path, text) for text in texts if text is not None]
        nameless = texts.count(None)
        if nameless:
            why = f"{counted(nameless, 'row')} whose text does not say which column is which"
            found.unread[path] = why
    found.rows |= count_in_records(spark, where, columns, records)
    return found


def _record(line: bytes) -> str | None:
    """The record of a row set aside, where it is a JSON object."""
    try:
        row = json.loads(line)
        text = str(row["record"])
        return text if isinstance(json.loads(text), dict) else None
    except (ValueError, KeyError, TypeError):
        return None


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
