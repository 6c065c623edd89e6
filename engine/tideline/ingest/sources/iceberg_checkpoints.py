"""How far each ingest has read its source, kept in an Iceberg table. Pure.

1. The commit that holds the rows says it in the summary of its snapshot. What counts is the newest
   such snapshot that the main branch came from: the source is read on from there when a table is
   taken back to an earlier snapshot. Whatever other writers commit is passed over.
2. The same commit sets a property of the table, which stays where snapshots expire. It counts only
   where older snapshots are gone, and none that is left says that they were undone.
3. A large checkpoint is in the property alone, and the summary has its generation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tideline.errors import ConflictError, CorruptTableError
from tideline.hudi.timeline.carried_value import CARRIED_PREFIX, carried_key, generation
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.ingest.sources.checkpoint import Checkpoint, newest_of

SUMMARY_CHARACTERS_MAX = 4_096
"""Metadata has the summaries of all snapshots, and is written whole by every commit."""


def iceberg_checkpoints(metadata: TableMetadata) -> dict[str, Checkpoint]:
    """The checkpoints of all ingests that fed the main branch, by name.

    Raises CorruptTableError for one that cannot be read, or was undone and is kept nowhere else.
    """
    head = metadata.ref_snapshot()
    if head is None:
        return {}
    said: dict[str, tuple[str, Snapshot]] = {}
    oldest = head
    for oldest in metadata.ancestors(head.snapshot_id):
        for name, text in _checkpoints_in(oldest.summary):
            said.setdefault(name, (text, oldest))
    kept = dict(_checkpoints_in(metadata.properties))
    found = {
        name: _decoded(metadata, name, _whole(metadata, name, text, kept, made), made.snapshot_id)
        for name, (text, made) in said.items()
    }
    if _is_first(oldest):
        return found
    for name, text in kept.items():
        if name not in found:
            _refuse_undone(metadata, name, text)
            found[name] = _decoded(metadata, name, text, "properties")
    return found


def require_iceberg_generation(metadata: TableMetadata, name: str, former: str, seen: int) -> None:
    """Raise ConflictError where the checkpoint of an ingest is not of the generation `seen`."""
    found = newest_of(iceberg_checkpoints(metadata), name, former)
    now = found.generation if found is not None else 0
    if now != seen:
        raise ConflictError(
            f"another driver of ingest {name!r} has committed",
            table=metadata.location,
            value=f"generation {now}, planned with {seen}",
        )


def summary_of(name: str, checkpoint: Checkpoint) -> dict[str, str]:
    """What the snapshot says that brings an ingest to a checkpoint."""
    text = checkpoint.encode()
    if len(text) > SUMMARY_CHARACTERS_MAX:
        text = json.dumps({"generation": checkpoint.generation})
    return {carried_key(name): text}


def properties_of(name: str, checkpoint: Checkpoint) -> dict[str, str]:
    """The properties that are set with it."""
    return {carried_key(name): checkpoint.encode()}


def _is_first(snapshot: Snapshot) -> bool:
    """Whether the table had nothing before. That a snapshot has no parent does not say so:
    PyIceberg takes it from what stays when the parent expires."""
    if snapshot.parent_snapshot_id is not None:
        return False
    if snapshot.sequence_number == 1:
        return True
    summary = snapshot.summary
    try:
        return int(summary["total-data-files"]) + int(summary.get("deleted-data-files", 0)) == int(
            summary.get("added-data-files", 0)
        )
    except (KeyError, ValueError):
        return False


def _checkpoints_in(texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key, text in texts.items():
        if key.startswith(CARRIED_PREFIX):
            yield key.removeprefix(CARRIED_PREFIX), text


def _whole(
    metadata: TableMetadata, name: str, text: str, kept: dict[str, str], made: Snapshot
) -> str:
    """The checkpoint that a snapshot says, from the property where it is too large for it."""
    number = generation(text)
    if text != json.dumps({"generation": number}):
        return text
    whole = kept.get(name, "")
    if generation(whole) != number:
        raise _undone(metadata, name, made.snapshot_id)
    return whole


def _refuse_undone(metadata: TableMetadata, name: str, text: str) -> None:
    """A snapshot of that checkpoint which is there, and not of the main branch, was undone; what
    the branch had before it has expired."""
    number = generation(text)
    for snapshot in metadata.snapshots:
        said = generation(snapshot.summary.get(carried_key(name)))
        if said is not None and said == number:
            raise _undone(metadata, name, snapshot.snapshot_id)


def _undone(metadata: TableMetadata, name: str, snapshot_id: int) -> CorruptTableError:
    return CorruptTableError(
        f"the table was taken back to before what ingest {name!r} did last, and its checkpoint of "
        "then is not kept: take the main branch to a later snapshot, or give the ingest a new name "
        "to have everything taken in",
        table=metadata.location,
        instant=snapshot_id,
    )


def _decoded(metadata: TableMetadata, name: str, text: str, instant: object) -> Checkpoint:
    try:
        return Checkpoint.decode(text, name=name, instant=instant)
    except CorruptTableError as error:
        error.table = error.table or metadata.location
        raise
