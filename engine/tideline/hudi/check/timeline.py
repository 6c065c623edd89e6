"""Is the timeline well-formed: names understood, bodies readable, nothing forgotten?"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.check_finding import Finding, Repair, RepairKind, error, note, warning
from tideline.errors import (
    ConfigError,
    CorruptTableError,
    ObjectNotFoundError,
    UnsupportedTableError,
)
from tideline.formats.avro import decode_container
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.services.cleaning.stored_plan import read_cleaning_plan
from tideline.hudi.table.settings import Settings
from tideline.hudi.timeline.instant import COMMIT_ACTIONS, Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.storage.heartbeat import is_heartbeat_dead

NAME = "timeline"

_CLOCK_SKEW_MS = 60_000
_COPY = "put its object back from a copy"
_SERVICE_ADVICE = {
    Action.CLEAN: f"{_COPY}, or delete all objects of this clean: the next one makes a new plan",
    Action.SAVEPOINT: f"{_COPY}, or delete the savepoint",
}
_FINISHED_BY = {
    Action.ROLLBACK: "tideline execute rollback",
    Action.RESTORE: "the same tideline restore again",
    Action.CLEAN: "tideline execute cleaning",
}
_AVRO_WHEN_COMPLETED = frozenset({Action.CLEAN, Action.ROLLBACK, Action.RESTORE, Action.SAVEPOINT})


def check_timeline(seen: Inspection) -> Iterator[Finding]:
    """Findings about instants of the active timeline."""
    yield from _names(seen)
    for instant, broken in seen.unreadable.items():
        if instant.is_pending:
            continue  # its plan is looked at with the others
        yield error(
            NAME,
            f"{instant} cannot be read: {broken}",
            path=seen.table.timelines.path(instant),
            instant=instant.time,
            advice=f"{_COPY}, or restore to a savepoint",
        )
    for instant in seen.timeline.of(*_AVRO_WHEN_COMPLETED).completed():
        yield from _service_body(seen, instant)
    yield from _times(seen)
    for instant in seen.timeline.pending():
        yield from _pending(seen, instant)


def _names(seen: Inspection) -> Iterator[Finding]:
    layout = seen.table.timelines.layout
    for path in seen.objects:
        directory, _, name = path.rpartition("/")
        looks_like_one = directory == layout.directory and name[:14].isdigit()
        if looks_like_one and layout.parse(name) is None:
            yield warning(
                NAME,
                "no instant is spelled like this; every reader skips it",
                path=path,
                advice="remove it, once it is known who put it there",
            )


def _service_body(seen: Inspection, instant: Instant) -> Iterator[Finding]:
    path = seen.table.timelines.path(instant)
    try:
        body = seen.table.timelines.read(instant)
        if body:
            decode_container(body, path=path)
        else:
            yield warning(NAME, f"{instant} is empty", path=path, instant=instant.time)
    except ObjectNotFoundError:
        return
    except (CorruptTableError, UnsupportedTableError) as broken:
        # What is merely too large may be sound: it is not deleted.
        is_broken = isinstance(broken, CorruptTableError)
        again = is_broken and instant.action is Action.CLEAN and _has_plan(seen, instant)
        yield error(
            NAME,
            f"{instant} cannot be read: {broken.message}",
            path=path,
            instant=instant.time,
            # Without it the clean is pending; executing its plan twice deletes nothing more.
            repair=Repair(RepairKind.DELETE_FILE, path) if again else None,
            advice=_SERVICE_ADVICE.get(instant.action, _COPY),
        )


def _has_plan(seen: Inspection, clean: Instant) -> bool:
    try:
        read_cleaning_plan(seen.table, clean)
    except (CorruptTableError, UnsupportedTableError):
        return False
    return True


def _times(seen: Inspection) -> Iterator[Finding]:
    by_time: dict[InstantTime, set[Action]] = {}
    for state in seen.states:
        if state.action is not Action.SAVEPOINT:
            by_time.setdefault(state.time, set()).add(state.action.when_completed)
    for time, actions in sorted(by_time.items()):
        if len(actions) > 1:
            words = " and ".join(sorted(str(action) for action in actions))
            yield error(
                NAME,
                f"two actions have one instant time: {words}",
                instant=time,
                advice="restore to a savepoint from before",
            )
    newest = seen.timeline.newest_time()
    known = seen.table.instants.known_zone(seen.timeline)
    now_ms = seen.table.clock.now_ms()
    is_ahead = newest is not None and known.zone.earliest_ms(newest) > now_ms + _CLOCK_SKEW_MS
    if known.refusal is not None:
        yield warning(NAME, known.refusal, advice="tideline declare --timezone")
    if is_ahead and known.knows_age:
        yield warning(
            NAME,
            "the newest instant is in the future; new ones follow it until the clock is past it",
            instant=newest,
            advice="set the clock of the machine that wrote it",
        )


def _pending(seen: Inspection, instant: Instant) -> Iterator[Finding]:
    has_requested = Instant(instant.time, instant.action, State.REQUESTED) in seen.states
    if not has_requested and instant.action is not Action.SAVEPOINT:
        yield warning(
            NAME,
            f"{instant} was never requested, its plan is missing",
            instant=instant.time,
            advice="tideline execute rollback" if instant.action in COMMIT_ACTIONS else _COPY,
        )
    if _is_plan(seen, instant):
        return
    try:
        limits = Settings(seen.table.config.properties).heartbeat_limits()
    except ConfigError:
        return  # reported by the check of the properties
    table = seen.table
    is_dead = is_heartbeat_dead(table.store, str(instant.time), table.clock, limits)
    if instant.action in COMMIT_ACTIONS and is_dead:
        yield warning(
            NAME,
            f"the writer of {instant} seems to be gone",
            instant=instant.time,
            advice="tideline execute rollback",
        )
    elif instant.action in _FINISHED_BY:
        yield note(
            NAME,
            f"{instant} has not finished",
            instant=instant.time,
            advice=_FINISHED_BY[instant.action] if is_dead else "",
        )


def _is_plan(seen: Inspection, instant: Instant) -> bool:
    """Whether it waits to be run by a later process: a clustering is a pending replacecommit."""
    if instant.action is not Action.REPLACECOMMIT:
        return instant.action in (Action.COMPACTION, Action.LOGCOMPACTION, Action.CLUSTERING)
    try:
        requested = instant.in_state(State.REQUESTED)
        return seen.table.timelines.read_record(requested).get("clusteringPlan") is not None
    except ObjectNotFoundError:
        return False
    except (CorruptTableError, UnsupportedTableError):
        return True  # reported with the plans
