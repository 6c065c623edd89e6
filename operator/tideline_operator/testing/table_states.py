"""States of one small table, declared and observed, for tests of pure modules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tideline.hudi.services.last_clean import LastClean
from tideline.hudi.services.registry import TableService
from tideline.hudi.timeline.active import ActiveTimeline
from tideline.hudi.timeline.instant import Action, Instant, State
from tideline.hudi.timeline.instant_time import InstantTime
from tideline.ingest.location import Location
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.declared import DeclaredFiles
from tideline.ingest.sources.files.listing import FileListing
from tideline_operator.decide.actions import PlannedAction, Start
from tideline_operator.decide.observed import (
    Observed,
    ObservedPending,
    ObservedSource,
    ObservedTable,
    TableHistory,
)
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.parsing import parse_stored
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import LakeTableStatus

NOW_MS = 1_800_000_000_000
FILES = tuple(ArrivedFile(f"f{number}.parquet", 10, number) for number in range(5))
TABLE = ObservedTable(
    ("id",), ("city",), ("ts",), "COPY_ON_WRITE", latest="20260101000000000", identity="hudi-1"
)
EMPTY = LakeTableStatus()


def resolved(trigger: dict[str, Any] | None = None, **spec: Any) -> ResolvedTable:
    """A LakeTable `people` with one ingest `landing` of two files a commit; `spec` over it."""
    ingest = {
        "name": "landing",
        "source": {"format": "parquet", "path": "landing"},
        "trigger": trigger or {"every": "30s"},
        "maxFilesPerCommit": 2,
    }
    content = {
        "location": "table",
        "recordKey": ["id"],
        "partitionBy": ["city"],
        "ordering": ["ts"],
        "ingest": [ingest],
        **spec,
    }
    resource = parse_stored(LakeTable, {"metadata": {"name": "people"}, "spec": content})
    if resource is None:
        raise ValueError(f"no LakeTable: {content}")
    sources = {
        item.name: DeclaredFiles(
            Location(f"memory://{item.name}"),
            item.source.format.of_files,
            options=dict(item.source.options),
            after_ingest=item.source.taken,
            moved_to=Location(f"memory://{item.source.moved_to}") if item.source.moved_to else None,
        )
        for item in resource.spec.ingest
    }
    return ResolvedTable(resource, Location("memory://table"), sources)


def with_landing(table: ResolvedTable, landing: Location, name: str = "landing") -> ResolvedTable:
    """The table, whose ingest reads another landing prefix."""
    source = table.sources.get(name)
    if source is None:
        return table
    assert isinstance(source, DeclaredFiles)
    return replace(table, sources={**table.sources, name: replace(source, landing=landing)})


def resolved_iceberg(location: str = "memory://table", **spec: Any) -> ResolvedTable:
    """A LakeTable `orders` in Iceberg's format at `location`; `spec` over it."""
    place = {} if "catalog" in spec else {"location": location}
    content = {"format": "Iceberg", **place, **spec}
    resource = parse_stored(LakeTable, {"metadata": {"name": "orders"}, "spec": content})
    if resource is None:
        raise ValueError(f"no LakeTable: {content}")
    return ResolvedTable(resource, Location(resource.spec.location), {})


def seen(*files: ArrivedFile, table: ObservedTable | None = TABLE, **landing: Any) -> Observed:
    """The table, and the landing prefix with `files` in it."""
    problem = landing.pop("problem", None)
    available = None if problem is not None else FileListing(files, **landing)
    return Observed(table, {"landing": ObservedSource(available, problem)})


def pending(time: str, *, is_dead: bool = False, dead_at_ms: int | None = None) -> ObservedPending:
    """A commit under way."""
    return ObservedPending(time, "commit", "inflight", is_dead, dead_at_ms)


def planned(time: InstantTime, service: TableService, *, is_idle: bool) -> ObservedPending:
    """A pending plan of a service, which no process runs (idle) or another one does."""
    action = service.pending_action
    dead_at_ms = None if is_idle else NOW_MS + 1_000
    return ObservedPending(str(time), str(action), "requested", False, dead_at_ms, service, is_idle)


def at(number: int) -> InstantTime:
    """The instant of that number, one a minute; number 0 is before all others."""
    return InstantTime(f"20260101{number // 60:02d}{number % 60:02d}00000")


def history(words: str, **facts: Any) -> TableHistory:
    """A timeline, one word an instant, numbered from 1: `delta delta compaction clean`.

    `?` before a word leaves it pending; `commit`, `cluster`, `replace`, `logcompact`, `rollback`,
    `restore` and `savepoint` (of the instant before it) are the other words.
    """
    instants, clusterings, log_compactions = [], set(), set()
    for number, text in enumerate(words.split(), start=1):
        word, is_pending = text.removeprefix("?"), text.startswith("?")
        time = at(number - 1 if word == "savepoint" else number)
        action = _ACTIONS[word]
        if is_pending:
            action = {"compaction": Action.COMPACTION}.get(word, action)
        state = State.REQUESTED if is_pending else State.COMPLETED
        instants.append(Instant(time, action, state))
        if word == "cluster":
            clusterings.add(time)
        if word == "logcompact":
            log_compactions.add(time)
    return TableHistory(
        timeline=ActiveTimeline(tuple(instants)),
        clusterings=frozenset(clusterings),
        log_compactions=frozenset(log_compactions),
        **facts,
    )


def cleaned(number: int, *, earliest: int, last: int) -> LastClean:
    """The clean at `number`, which kept everything from commit `earliest` on."""
    return LastClean(at(number), at(earliest), at(last))


_ACTIONS = {
    "commit": Action.COMMIT,
    "delta": Action.DELTACOMMIT,
    "compaction": Action.COMMIT,
    "logcompact": Action.DELTACOMMIT,
    "cluster": Action.REPLACECOMMIT,
    "replace": Action.REPLACECOMMIT,
    "clean": Action.CLEAN,
    "rollback": Action.ROLLBACK,
    "restore": Action.RESTORE,
    "savepoint": Action.SAVEPOINT,
}


def starts(actions: tuple[PlannedAction, ...]) -> list[Start]:
    """The operations a plan starts."""
    return [action for action in actions if isinstance(action, Start)]


def observed_table(words: str, **fields: Any) -> ObservedTable:
    """A merge-on-read table when there are delta commits, else a copy-on-write one."""
    facts = fields.pop("facts", {})
    kind = fields.pop("table_type", "MERGE_ON_READ" if "delta" in words else "COPY_ON_WRITE")
    return replace(TABLE, table_type=kind, history=history(words, **facts), **fields)


def started_kinds(actions: tuple[PlannedAction, ...]) -> list[str]:
    """What is started, in order."""
    return [start.operation.kind.value for start in starts(actions)]


def only_service(name: str, **fields: Any) -> dict[str, Any]:
    """A `services` with nothing but one service."""
    off = {"cleaning": {"enabled": False}, "archiving": {"enabled": False},
           "compaction": {"enabled": False}}  # fmt: skip
    return {"services": {**off, name: {"enabled": True, **fields}}}
