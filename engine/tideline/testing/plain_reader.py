"""A second reader of copy-on-write tables, for tests: file names, JSON or Avro, and pyarrow.

Shares no code with the engine. It reads a table in a local folder with as little knowledge as will
do: which instants are completed, which file groups they replaced, the newest file of each group.
Instants of version 6 are in `.hoodie`, those of version 9 in a folder of their own.
"""

from __future__ import annotations

import hashlib
import json
import re
from io import BytesIO
from pathlib import Path
from typing import Any, cast

import fastavro
import pyarrow.parquet as pq

Row = dict[str, Any]


def completed_commits(folder: Path) -> dict[str, dict[str, Any]]:
    """Commit metadata by instant time, oldest first."""
    found = {}
    for path in sorted(_instants(folder)):
        if path.suffix in (".commit", ".deltacommit", ".replacecommit"):
            found[_time(path)] = metadata_of(path)
    return found


def newest_commit(folder: Path) -> dict[str, Any]:
    """The metadata of the newest completed commit."""
    return list(completed_commits(folder).values())[-1]


def metadata_of(instant: Path) -> dict[str, Any]:
    """What the file of a commit says, in JSON or Avro."""
    body = instant.read_bytes()
    if not body.startswith(b"Obj"):
        return dict(json.loads(body or b"{}"))
    (record,) = fastavro.reader(BytesIO(body))
    return cast("dict[str, Any]", record)


def live_files(folder: Path) -> list[Path]:
    """The files a reader has to read, sorted by path."""
    commits = completed_commits(folder)
    replaced = {
        (partition, file_id)
        for metadata in commits.values()
        for partition, ids in (metadata.get("partitionToReplaceFileIds") or {}).items()
        for file_id in ids
    }
    newest: dict[tuple[str, str], tuple[str, Path]] = {}
    for path in folder.rglob("*.parquet"):
        partition = path.parent.relative_to(folder).as_posix()
        if ".hoodie" in partition.split("/"):
            continue
        file_id, _, instant = path.stem.split("_")
        group = ("" if partition == "." else partition, file_id)
        if instant in commits and group not in replaced:
            newest[group] = max(newest.get(group, ("", path)), (instant, path))
    return sorted(path for _, path in newest.values())


def stored_rows(folder: Path) -> list[Row]:
    """Every row of the table with all its columns, in the order of files and rows."""
    rows: list[Row] = []
    for path in live_files(folder):
        rows += pq.ParquetFile(path).read().to_pylist()
    return rows


def objects(folder: Path) -> dict[str, str]:
    """A digest of every file in the folder, by path; the lock's own file left out."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and ".locks" not in path.parts
    }


def leftovers(folder: Path) -> list[str]:
    """Paths of what only an unfinished write has: pending instants, markers, heartbeats."""
    found = [
        path.relative_to(folder).as_posix()
        for area in (".hoodie/.temp", ".hoodie/.heartbeat")
        for path in (folder / area).rglob("*")
        if path.is_file()
    ]
    instants = _instants(folder)
    completed = {
        _time(path)
        for path in instants
        if "requested" not in path.name and "inflight" not in path.name
    }
    return sorted(found + sorted({_time(path) for path in instants} - completed))


def _instants(folder: Path) -> list[Path]:
    return [*(folder / ".hoodie").glob("2*"), *(folder / ".hoodie/timeline").glob("2*")]


def _time(path: Path) -> str:
    """The requested time: the name continues with the state, or with the completion time."""
    return re.split(r"[._]", path.name)[0]
