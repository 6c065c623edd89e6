"""Changes of branches and tags, and of what the main branch leads to.

Nothing but names moves: snapshots stay until they are expired. Source: Iceberg's specification,
"Snapshot References", and what Iceberg's `ManageSnapshots` refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tideline.errors import ConfigError
from tideline.iceberg.evolution.draft import Draft
from tideline.iceberg.metadata.snapshot import MAIN, Snapshot, SnapshotRef
from tideline.iceberg.read.snapshot_choice import named_snapshot, time_text

BRANCH, TAG = "branch", "tag"
_WAP_ID, _PUBLISHED = "wap.id", "published-wap-id"


@dataclass(frozen=True, slots=True)
class Retention:
    """How long a reference, and the snapshots of a branch, are kept; None: as it is."""

    max_ref_age_ms: int | None = None
    min_snapshots_to_keep: int | None = None
    max_snapshot_age_ms: int | None = None

    def on(self, draft: Draft, name: str, ref: SnapshotRef) -> SnapshotRef:
        """A reference that is kept so. Raises ConfigError for what its type cannot have."""
        own = (self.min_snapshots_to_keep, self.max_snapshot_age_ms)
        if ref.type == TAG and own != (None, None):
            raise ConfigError("a tag keeps one snapshot alone", table=draft.table, value=name)
        if name == MAIN and self.max_ref_age_ms is not None:
            raise ConfigError("the main branch is kept for ever", table=draft.table)
        if any(value is not None and value < 1 for value in (self.max_ref_age_ms, *own)):
            raise ConfigError("ages and numbers are positive", table=draft.table, value=name)
        given = {
            field: value
            for field in ("max_ref_age_ms", "min_snapshots_to_keep", "max_snapshot_age_ms")
            if (value := getattr(self, field)) is not None
        }
        return replace(ref, **given)


AS_IT_IS = Retention()


@dataclass(frozen=True, slots=True)
class CreateRef:
    """A new branch or tag at `as_of`: a snapshot's id, a branch, a tag, or a time; by default where
    the main branch is. With `replaces` one that is there is taken there instead, and
    with `if_absent` left as it is."""

    name: str
    type: str
    as_of: Any = None
    retention: Retention = AS_IT_IS
    replaces: bool = False
    if_absent: bool = False

    def __str__(self) -> str:
        where = "" if self.as_of is None else f" at {self.as_of}"
        return f"create {self.type} {self.name}{where}"

    def apply(self, draft: Draft) -> Draft:
        known = draft.refs.get(self.name)
        if not self.name.strip():
            raise ConfigError(f"a {self.type} has a name", table=draft.table)
        if known is not None and known.type != self.type:
            message = f"there is a {known.type} of this name"
            raise ConfigError(message, table=draft.table, value=self.name)
        if known is not None and self.if_absent:
            return draft
        if known is not None and not self.replaces:
            message = f"there is such a {self.type} already; replace it to move it"
            raise ConfigError(message, table=draft.table, value=self.name)
        if known is None and self.name == MAIN:
            message = "the main branch is made by the first commit"
            raise ConfigError(message, table=draft.table)
        ref = SnapshotRef(snapshot_at(draft, self.as_of).snapshot_id, self.type)
        if known is not None:
            ref = replace(known, snapshot_id=ref.snapshot_id)
        return _with(draft, self.name, self.retention.on(draft, self.name, ref))


@dataclass(frozen=True, slots=True)
class DropRef:
    """Forget a branch or tag. What it alone kept is expired with the next snapshots."""

    name: str
    type: str
    if_present: bool = False

    def __str__(self) -> str:
        return f"drop {self.type} {self.name}"

    def apply(self, draft: Draft) -> Draft:
        if self.if_present and self.name not in draft.refs:
            return draft
        _known(draft, self.name, self.type)
        if self.name == MAIN:
            raise ConfigError("the main branch cannot be dropped", table=draft.table)
        return _with(draft, self.name, None)


@dataclass(frozen=True, slots=True)
class RenameRef:
    """A branch under another name, with what it keeps."""

    name: str
    type: str
    new_name: str

    def __str__(self) -> str:
        return f"rename {self.type} {self.name} to {self.new_name}"

    def apply(self, draft: Draft) -> Draft:
        ref = _known(draft, self.name, self.type)
        if self.name == MAIN:
            raise ConfigError("the main branch cannot be renamed", table=draft.table)
        if not self.new_name.strip() or self.new_name in draft.refs:
            message = "the new name is empty, or that of another branch or tag"
            raise ConfigError(message, table=draft.table, value=self.new_name)
        return _with(_with(draft, self.name, None), self.new_name, ref)


@dataclass(frozen=True, slots=True)
class FastForward:
    """Take a branch to where `to` is, which must be ahead of it: nothing of the branch is lost. A
    branch that is not there is created there."""

    name: str
    to: Any

    def __str__(self) -> str:
        return f"fast-forward branch {self.name} to {self.to}"

    def apply(self, draft: Draft) -> Draft:
        target = snapshot_at(draft, self.to)
        if self.name not in draft.refs:
            return _with(draft, self.name, SnapshotRef(target.snapshot_id))
        ref = _known(draft, self.name, BRANCH)
        if not _leads_back(draft, target, ref.snapshot_id):
            message = (
                f"branch {self.name} cannot be fast-forwarded: its snapshot {ref.snapshot_id} is "
                f"not an ancestor of {self.to} ({target.snapshot_id})"
            )
            raise ConfigError(message, table=draft.table, value=self.name)
        return _with(draft, self.name, replace(ref, snapshot_id=target.snapshot_id))


@dataclass(frozen=True, slots=True)
class Retain:
    """Say how long a branch or tag is kept, and the snapshots of a branch."""

    name: str
    type: str
    retention: Retention

    def __str__(self) -> str:
        return f"set the retention of {self.type} {self.name}"

    def apply(self, draft: Draft) -> Draft:
        ref = _known(draft, self.name, self.type)
        return _with(draft, self.name, self.retention.on(draft, self.name, ref))


@dataclass(frozen=True, slots=True)
class Rollback:
    """Take the main branch back to a snapshot that it came from, or to what it was at a time. Later
    snapshots stay until they are expired. With `any_snapshot` it may be one of another branch."""

    to: Any
    any_snapshot: bool = False

    def __str__(self) -> str:
        verb = "set the current snapshot to" if self.any_snapshot else "roll back to"
        return f"{verb} {self.to}"

    def apply(self, draft: Draft) -> Draft:
        if self.to is None:
            raise ConfigError("a rollback names a snapshot or a time", table=draft.table)
        target = snapshot_at(draft, self.to)
        main = draft.refs.get(MAIN)
        head = None if main is None else draft.base.snapshot(main.snapshot_id)
        is_ancestor = head is not None and _leads_back(draft, head, target.snapshot_id)
        if not is_ancestor and not self.any_snapshot:
            message = f"snapshot {target.snapshot_id} is not an ancestor of the main branch"
            raise ConfigError(message, table=draft.table, value=self.to)
        ref = main or SnapshotRef(target.snapshot_id)
        return _with(draft, MAIN, replace(ref, snapshot_id=target.snapshot_id))


@dataclass(frozen=True, slots=True)
class PublishStaged:
    """Take the main branch to a snapshot that was staged under a WAP id, on top of what the branch
    is now."""

    wap_id: str

    def __str__(self) -> str:
        return f"publish what was staged as {self.wap_id}"

    def apply(self, draft: Draft) -> Draft:
        staged = [s for s in draft.base.snapshots if s.summary.get(_WAP_ID) == self.wap_id]
        if len(staged) != 1:
            message = "the table keeps no snapshot that was staged under this id, or several"
            raise ConfigError(message, table=draft.table, value=self.wap_id)
        target, main = staged[0], draft.refs.get(MAIN)
        head_id = None if main is None else main.snapshot_id
        published = (self.wap_id,) if head_id == target.snapshot_id else tuple(
            snapshot.summary.get(_PUBLISHED) or snapshot.summary.get(_WAP_ID)
            for snapshot in draft.base.ancestors(head_id)
        )  # fmt: skip
        if self.wap_id in published:
            message = "what was staged under this id is published already"
            raise ConfigError(message, table=draft.table, value=self.wap_id)
        if target.parent_snapshot_id != head_id:
            message = (
                "the main branch has moved since this was staged, and it would have to be written "
                "again on top: Iceberg's cherrypick_snapshot does that"
            )
            raise ConfigError(message, table=draft.table, value=self.wap_id)
        ref = main or SnapshotRef(target.snapshot_id)
        return _with(draft, MAIN, replace(ref, snapshot_id=target.snapshot_id))


def snapshot_at(draft: Draft, as_of: Any) -> Snapshot:
    """The snapshot of a name, an id or a time; of the main branch for None. Raises ConfigError."""
    now = replace(draft.base, refs=draft.refs)
    if as_of is not None:
        return named_snapshot(now, as_of, now_ms=draft.now_ms)
    main = now.ref_snapshot(MAIN)
    if main is None:
        message = f"the table has no snapshot yet, at {time_text(draft.now_ms)}"
        raise ConfigError(message, table=draft.table)
    return main


def _leads_back(draft: Draft, newer: Snapshot, older_id: int) -> bool:
    ancestors = draft.base.ancestors(newer.snapshot_id)
    return any(snapshot.snapshot_id == older_id for snapshot in ancestors)


def _known(draft: Draft, name: str, kind: str) -> SnapshotRef:
    ref = draft.refs.get(name)
    if ref is None or ref.type != kind:
        known = ", ".join(sorted(n for n, r in draft.refs.items() if r.type == kind)) or "none"
        message = f"the table has no such {kind}: there is {known}"
        raise ConfigError(message, table=draft.table, value=name)
    return ref


def _with(draft: Draft, name: str, ref: SnapshotRef | None) -> Draft:
    refs = {known: item for known, item in draft.refs.items() if known != name or ref is not None}
    return replace(draft, refs=refs if ref is None else {**refs, name: ref})
