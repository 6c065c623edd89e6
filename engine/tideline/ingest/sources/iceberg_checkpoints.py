"""How far each ingest has read its source, kept in an Iceberg table. Pure.

1. The commit that holds the rows says it in the summary of its snapshot. What counts is the newest
   such snapshot that the main branch came from: the source is read on from there when a table is
   taken back to an earlier snapshot. Whatever other writers commit is passed over.
2. The same commit sets a property of the table, which stays where snapshots expire. It counts only
   where older snapshots are gone, and none that is left says that they were undone.
3. A large checkpoint is in the property alone, and the summary has its generation.
4. A table that is copied again has another checkpoint on the branch that takes the copy in, and in
   a property of its own. It counts as long as there is the branch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from tideline.errors import ConflictError, CorruptTableError
from tideline.hudi.timeline.carried_value import CARRIED_PREFIX, carried_key, generation
from tideline.iceberg.metadata.snapshot import Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.ingest.sources.checkpoint import Checkpoint, keep_newest, newest_of
from tideline.ingest.sources.iceberg_copies import copy_branches, newest_of_copy

SUMMARY_CHARACTERS_MAX = 4_096
"""Metadata has the summaries of all snapshots, and is written whole by every commit."""
_COPIED_PREFIX = "tideline.resync."


def iceberg_checkpoints(metadata: TableMetadata) -> dict[str, Checkpoint]:
    """The checkpoints of all ingests that fed the main branch, or copy into another, by name.

    Raises CorruptTableError for one that cannot be read, or was undone and is kept nowhere else.
    """
    head = metadata.ref_snapshot()
    if head is None:
        return {}
    found = _of_main(metadata, head)
    for branch in copy_branches(metadata):
        keep_newest(found, _of_copy(metadata, branch))
    return found


def _of_main(metadata: TableMetadata, head: Snapshot) -> dict[str, Checkpoint]:
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


def properties_of(name: str, checkpoint: Checkpoint, *, is_copy: bool) -> dict[str, str]:
    """The properties that are set with it."""
    key = f"{_COPIED_PREFIX}{name}" if is_copy else carried_key(name)
    return {key: checkpoint.encode()}


def properties_of_copies(metadata: TableMetadata) -> tuple[str, ...]:
    """The names of properties that are over with a copy."""
    return tuple(name for name in metadata.properties if name.startswith(_COPIED_PREFIX))


def _of_copy(metadata: TableMetadata, branch: str) -> dict[str, Checkpoint]:
    made = newest_of_copy(metadata, branch)
    assert made is not None, "the branch is one of a copy"
    kept = dict(_checkpoints_in(metadata.properties, _COPIED_PREFIX))
    return {
        name: _decoded(metadata, name, _whole(metadata, name, text, kept, made), made.snapshot_id)
        for name, text in _checkpoints_in(made.summary)
    }


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


def _checkpoints_in(
    texts: Mapping[str, str], prefix: str = CARRIED_PREFIX
) -> Iterator[tuple[str, str]]:
    for key, text in texts.items():
        if key.startswith(prefix):
            yield key.removeprefix(prefix), text


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
