"""Setting aside what cannot be taken in, in `_quarantine/` of the landing prefix.

- A file: a note that names it keeps it out. Died before: it is checked again. Died after: it is
  kept out, as it would have been.
- Rows of a file: one object with all of them, put before the commit that takes the rest of the file
  in. Died before the put: nothing has happened. Died between put and commit: the next run finds the
  same rows and puts the same object again; one with another number of rows takes its place. So no
  row is left out that is not there.

Rows come back in a new file of their own, corrected; the object is then deleted by hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import QUARANTINE, ROWS_ENDING, FileListing
from tideline.storage.object_store import ObjectStore


def note_path(file: ArrivedFile) -> str:
    """Where the note about a quarantined file lies."""
    return f"{QUARANTINE}/{file.path}.{file.identity}.json"


def rows_path(file: ArrivedFile, rows: int) -> str:
    """Where that many rows of a file lie."""
    return f"{QUARANTINE}/{file.path}.{file.identity}.{rows}{ROWS_ENDING}"


def quarantine(store: ObjectStore, file: ArrivedFile, *, reason: str, now_ms: int) -> None:
    """Keep `file` out from now on, saying why. Repeating it is harmless."""
    note = {
        "file": file.path,
        "sizeBytes": file.size_bytes,
        "modifiedMs": file.modified_ms,
        "notedMs": now_ms,
        "reason": reason,
        "hint": "Delete this note, or replace the file, to have it tried again.",
    }
    store.put(note_path(file), json.dumps(note, indent=2, ensure_ascii=False).encode() + b"\n")


def quarantine_rows(
    store: ObjectStore, file: ArrivedFile, rows: Iterable[Mapping[str, Any]], landing: FileListing
) -> str:
    """Keep these rows of `file`, and return where. `landing` is a listing of before."""
    lines = [json.dumps({"file": file.path, **row}, ensure_ascii=False) for row in rows]
    path = rows_path(file, len(lines))
    store.put(path, "\n".join([*lines, ""]).encode())
    release_rows(store, file, landing, keep=path)
    return path


def release_rows(
    store: ObjectStore, file: ArrivedFile, landing: FileListing, *, keep: str = ""
) -> None:
    """Delete rows of `file` that earlier runs set aside without taking in the rest of it."""
    for item in landing.rows_set_aside:
        path = rows_path(file, item.rows)
        if item.identity == file.identity and path != keep:
            store.delete(path)
