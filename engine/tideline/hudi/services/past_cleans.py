"""What the timeline says of cleans: the newest completed one, and what pending ones will keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tideline.bounded.parsing import parser
from tideline.errors import CorruptTableError, ObjectNotFoundError
from tideline.formats.avro import decode_container
from tideline.hudi.services.last_clean import SAVEPOINTED, LastClean
from tideline.hudi.table.hoodie_table import HoodieTable
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime

T = TypeVar("T")


def read_last_clean(table: HoodieTable, timeline: ActiveTimeline) -> LastClean | None:
    """The newest completed clean that can be read; None when there is none.

    An empty object is that of a writer that died, or of a store that lost the body: it is passed
    over here, and done again by the next process that cleans.
    """
    for instant in reversed(timeline.of(Action.CLEAN).completed().instants):
        try:
            record = table.timelines.read_record(instant)
        except ObjectNotFoundError:
            continue
        if not record:
            continue
        named = (record.get("extraMetadata") or {}).get(SAVEPOINTED) or ""
        return LastClean(
            time=instant.time,
            earliest_retained=_time(record.get("earliestCommitToRetain")),
            last_completed=_time(record.get("lastCompletedCommitTimestamp")),
            savepointed=frozenset(InstantTime(text) for text in named.split(",") if text),
        )
    return None


def read_planned_clean(
    table: HoodieTable, instant: Instant, parse: Callable[[Mapping[str, Any]], T]
) -> T:
    """What `parse` makes of the plan of a clean.

    Raises CorruptTableError naming instant and path when it is cut short.
    """
    path = table.timelines.path(instant.in_state(State.REQUESTED))
    try:
        return parse(decode_container(table.store.get(path), path=path))
    except (CorruptTableError, ObjectNotFoundError) as error:
        raise CorruptTableError(
            f"the plan of this clean cannot be read ({error.message}); "
            "while it is only requested it may be deleted, nothing was done for it",
            table=table.uri,
            instant=instant.time,
            path=path,
            value=error.value,
        ) from error


@parser("a clean plan lacks a field, or one is wrong")
def planned_earliest(record: Mapping[str, Any]) -> InstantTime | None:
    """The earliest instant that a planned clean keeps; None when only file versions count."""
    earliest = record.get("earliestInstantToRetain")
    return None if earliest is None else InstantTime.parse(earliest["timestamp"])


def _time(text: str | None) -> InstantTime | None:
    return InstantTime.parse(text) if text else None
