"""Extra metadata that must outlive its commits: what archived commits carried, by key.

Every commit of ours carries ingest checkpoints on, so the newest commits have them. Where another
engine wrote all commits that are left in the active timeline, the last carrier is in the archive,
perhaps far back. So that no process reads the whole archive more than once, a writer remembers in
one object what it found and up to which archive file:

1. List the archive, get what is remembered, read only the archive files that are newer.
2. Put what was found back. Died before or after: the same is found and put the next time, for the
   object only repeats what the archive says. Call under the table lock, as writers do.

Of several values of a key the one of the highest generation counts (checkpoints are JSON with a
`generation`), else the one of the newest commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tideline.bounded.parsing import PARSER_FAULTS, parse_json
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.hudi.timeline.archived import ArchivedTimeline, ArchiveFile, ArchivePosition
from tideline.hudi.timeline.carried_value import generation
from tideline.hudi.timeline.instant import COMMIT_ACTIONS

REMEMBERED_PATH = ".hoodie/.aux/tideline-carried.json"

_OURS = "tideline."
_Found = dict[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Remembered:
    """Per key the instant and the value found, in archive files up to `position`."""

    position: ArchivePosition = field(default_factory=ArchivePosition)
    found: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def read_carried(
    archived: ArchivedTimeline, prefix: str, *, remembers: bool = False
) -> dict[str, str]:
    """Entries of archived commits' extra metadata whose keys begin with `prefix`, one of ours.

    With `remembers` later calls are cheap; only then anything is written. Raises CorruptTableError
    for an archive that cannot be read.
    """
    files = archived.files()
    if not files:
        return {}
    known = _load(archived)
    newer = [file for file in files if not known.position.covers(file)]
    found: _Found = dict(known.found)
    for file in newer:
        _gather(archived, file, found)
    if newer and remembers:
        content = {
            **archived.position(files).to_json(),
            "found": {key: list(value) for key, value in found.items()},
        }
        archived.store.put(REMEMBERED_PATH, json.dumps(content).encode())
    return {key: value for key, (_, value) in found.items() if key.startswith(prefix)}


def _gather(archived: ArchivedTimeline, file: ArchiveFile, found: _Found) -> None:
    for entry in archived.read(file).entries:
        instant = entry.instant
        if not instant.is_completed or instant.action not in COMMIT_ACTIONS:
            continue
        for key, value in entry.extra_metadata().items():
            if not key.startswith(_OURS):
                continue
            candidate = (str(instant.time), value)
            if key not in found or _rank(found[key]) < _rank(candidate):
                found[key] = candidate


def _load(archived: ArchivedTimeline) -> _Remembered:
    try:
        content: dict[str, Any] = parse_json(archived.store.get(REMEMBERED_PATH))
        found = {
            str(key): (str(time), str(value)) for key, (time, value) in content["found"].items()
        }
        return _Remembered(ArchivePosition.from_json(content), found)
    except (ObjectNotFoundError, CorruptTableError, UnsupportedTableError, *PARSER_FAULTS):
        # It only repeats the archive, which is then read again.
        return _Remembered()


def _rank(candidate: tuple[str, str]) -> tuple[int, str]:
    time, value = candidate
    found = generation(value)
    return -1 if found is None else found, time
