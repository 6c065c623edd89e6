"""Copies of a source into a branch of an Iceberg table, which then takes the place of main. Pure.

1. The first snapshot of the branch comes from where main was, and takes all rows out.
2. The branch takes in what is copied. Each of its snapshots says where main was: services may
   rewrite main meanwhile, and what others write there would be lost with it.
3. The last snapshot becomes main, and the branch is dropped, by one commit. A branch that somebody
   drops before that leaves main as it was, with the checkpoint that it had.
"""

from __future__ import annotations

from tideline.errors import ConfigError, ConflictError
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot
from tideline.iceberg.metadata.table_metadata import TableMetadata

MAIN_KEY = "tideline.resync-main"
"""In the summary of a snapshot of a copy: where main was."""
PARENT = "parent"
"""Where main was, of the first snapshot: what it comes from."""
_PREFIX = "tideline-resync-"
_REPLACE = "replace"


def branch_for(ingest: str) -> str:
    """The branch that takes in a copy of an ingest."""
    return f"{_PREFIX}{ingest}"


def copy_branches(metadata: TableMetadata) -> tuple[str, ...]:
    """The branches of copies that are under way. One that main was taken to is none."""
    found = [
        name
        for name, ref in metadata.refs.items()
        if name.startswith(_PREFIX) and ref.type == "branch" and newest_of_copy(metadata, name)
    ]
    if not found:
        return ()
    main = metadata.ref_snapshot(MAIN)
    of_main = metadata.ancestors(None if main is None else main.snapshot_id)
    listed = {snapshot.snapshot_id for snapshot in of_main}
    return tuple(name for name in sorted(found) if metadata.refs[name].snapshot_id not in listed)


def copy_branch(metadata: TableMetadata, ingest: str, former: str = "") -> str | None:
    """The branch of the copy of an ingest, also under its former name; None without one."""
    under_way = copy_branches(metadata)
    wanted = (branch_for(name) for name in (ingest, former) if name)
    return next((name for name in wanted if name in under_way), None)


def newest_of_copy(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """The newest snapshot of a branch that the copy made."""
    ref = metadata.refs[branch]
    ancestors = metadata.ancestors(ref.snapshot_id)
    return next((item for item in ancestors if MAIN_KEY in item.summary), None)


def why_stopped(metadata: TableMetadata, branch: str) -> str | None:
    """Why a copy must not take the place of main; None where main has the rows that it had."""
    newest = newest_of_copy(metadata, branch) if branch in metadata.refs else None
    main = metadata.ref_snapshot(MAIN)
    changed = "is gone" if main is None or newest is None else _change(metadata, newest, main)
    if changed is None:
        return None
    return (
        f"the table is copied again on branch {branch}, and main {changed}: tideline resync begins "
        f"again without that; to keep main, drop branch {branch}"
    )


def require_no_other_copy(metadata: TableMetadata, branch: str | None, *, begins: bool) -> None:
    """Raise where a write to the `branch` of a copy, or to main, is in the way of a copy, or a copy
    in that of what others wrote or named: ConflictError, ConfigError."""
    for other in copy_branches(metadata):
        if other != branch:
            raise ConflictError(
                f"the table is copied again on branch {other}, and rows of main would be lost",
                table=metadata.location,
            )
    if branch is None:
        return
    reason = _made_by_others(metadata, branch) if begins else why_stopped(metadata, branch)
    if reason is not None:
        raise ConfigError(reason, table=metadata.location)


def _made_by_others(metadata: TableMetadata, branch: str) -> str | None:
    ref = metadata.refs.get(branch)
    if ref is None or (ref.type == "branch" and newest_of_copy(metadata, branch)):
        return None
    return f"the table has a {ref.type} {branch} that no copy made: drop it, copies need the name"


def _change(metadata: TableMetadata, newest: Snapshot, main: Snapshot) -> str | None:
    """What was done to main since the newest snapshot of a copy."""
    known = newest.summary[MAIN_KEY]
    mark = str(newest.parent_snapshot_id) if known == PARENT else known
    foreign = None
    for snapshot in metadata.ancestors(main.snapshot_id):
        if str(snapshot.snapshot_id) == mark:
            return foreign
        if snapshot.operation != _REPLACE and foreign is None:
            writer = f"another writer ({snapshot.operation})"
            foreign = f"has snapshot {snapshot.snapshot_id} of {writer}"
        if str(snapshot.parent_snapshot_id) == mark:
            return foreign
    return f"was taken to snapshot {main.snapshot_id}, or what it came from has expired"
