"""One state of an instant as an entry of the archive (HoodieArchivedMetaEntry).

Commit metadata, plans and service metadata go into the field of their kind; a state without a body
has an entry with none. Source: Hudi's MetadataConversionUtils.createMetaWrapper.
"""

from __future__ import annotations

from typing import Any

from tideline.bounded.parsing import faults_named, parse_json
from tideline.errors import CorruptTableError, UnsupportedTableError
from tideline.formats.avro import decode_container
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime

# Hudi cannot archive rolling statistics, and leaves an empty entry in their place.
_ROLLING_STATS = {"ROLLING_STAT": ""}
_PLANS = frozenset({Action.COMPACTION, Action.LOGCOMPACTION})


def archive_entry(
    instant: Instant, body: bytes, *, moved_at: InstantTime, path: str
) -> dict[str, Any]:
    """The entry for one state of an instant whose object at `path` holds `body`.

    `moved_at` is when the instant came into that state. Raises CorruptTableError for a body that
    cannot be read, and for a completed commit without one.
    """
    entry: dict[str, Any] = {
        "commitTime": str(instant.time),
        "actionType": instant.action.value,
        "actionState": instant.state.value,
        "stateTransitionTime": str(moved_at),
        "version": 1,
    }
    field = _field(instant)
    if field is None:
        return entry
    if field in ("hoodieCommitMetadata", "hoodieReplaceCommitMetadata"):
        entry[field] = _commit(body, instant, path)
    elif field == "HoodieInflightReplaceMetadata":
        entry[field] = _commit(body, instant, path) if body else None
    elif body:
        entry[field] = decode_container(body, path=path)
    return entry


def _field(instant: Instant) -> str | None:
    """The field that holds the body of an instant in this state."""
    action, state = instant.action, instant.state
    if action in (Action.COMMIT, Action.DELTACOMMIT):
        return "hoodieCommitMetadata"
    if action is Action.REPLACECOMMIT:
        return {
            State.REQUESTED: "hoodieRequestedReplaceMetadata",
            State.INFLIGHT: "HoodieInflightReplaceMetadata",
            State.COMPLETED: "hoodieReplaceCommitMetadata",
        }[state]
    if action is Action.CLEAN:
        return "hoodieCleanMetadata" if state is State.COMPLETED else "hoodieCleanerPlan"
    if action is Action.ROLLBACK and state is State.COMPLETED:
        return "hoodieRollbackMetadata"
    if action in _PLANS and state is State.REQUESTED:
        return "hoodieCompactionPlan"
    return None


def _commit(body: bytes, instant: Instant, path: str) -> dict[str, Any]:
    """The commit metadata of any Hudi version as an Avro record."""
    if not body and instant.is_completed:
        raise CorruptTableError("completed commit is empty", instant=instant.time, path=path)
    try:
        content = parse_json(body, path=path, what="commit metadata") if body else {}
        if not isinstance(content, dict):
            raise CorruptTableError("commit metadata is not a JSON object", path=path)
    except (CorruptTableError, UnsupportedTableError) as error:
        error.instant = instant.time
        raise
    with faults_named("commit metadata is not understood", path=path):
        extra = {key: text for key, text in (content.get("extraMetadata") or {}).items() if text}
    return {
        **content,
        "partitionToWriteStats": content.get("partitionToWriteStats") or {},
        "extraMetadata": {**extra, **_ROLLING_STATS},
        "operationType": content.get("operationType") or "UNKNOWN",
        "version": 1,
    }
