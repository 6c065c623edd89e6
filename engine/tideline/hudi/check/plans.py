"""Are the files there that pending compaction and clustering plans name?

A plan whose file is gone fails whenever it is run, and so does one that cannot be read; until it is
gone, cleaning and archival make no progress. Nothing depends on the plan of a clean, a clustering
or a log compaction, so it may be given up; on top of a planned compaction rows have been appended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tideline.check_finding import Finding, Repair, RepairKind, error
from tideline.errors import CorruptTableError, ObjectNotFoundError, UnsupportedTableError
from tideline.hudi.check.inspection import Inspection
from tideline.hudi.services.cleaning.stored_plan import read_cleaning_plan
from tideline.hudi.table.file_group import join_path
from tideline.hudi.timeline.instant import Action, Instant, State

NAME = "plans"


def check_plans(seen: Inspection) -> Iterator[Finding]:
    """Findings about files of pending plans."""
    yield from _cleans(seen)
    services = (Action.COMPACTION, Action.LOGCOMPACTION, Action.REPLACECOMMIT, Action.CLUSTERING)
    for instant in seen.timeline.of(*services).pending():
        path = seen.table.timelines.path(instant.in_state(State.REQUESTED))
        try:
            plan = seen.table.timelines.read_record(instant.in_state(State.REQUESTED))
        except ObjectNotFoundError:
            continue
        except (CorruptTableError, UnsupportedTableError) as broken:
            yield _unreadable(instant, path, broken.message)
            continue
        if not plan and instant.action is not Action.REPLACECOMMIT:
            yield _unreadable(instant, path, "it is empty")
        for file in _files(plan):
            if seen.is_still_missing(file) and seen.table.store.head(path) is not None:
                yield error(
                    NAME,
                    f"{instant} needs a file that is missing",
                    path=file,
                    instant=instant.time,
                    advice="put it back from a copy, or restore to a savepoint from before",
                )


def _cleans(seen: Inspection) -> Iterator[Finding]:
    for clean in seen.timeline.of(Action.CLEAN).pending():
        path = seen.table.timelines.path(clean.in_state(State.REQUESTED))
        try:
            read_cleaning_plan(seen.table, clean)
        except (CorruptTableError, UnsupportedTableError) as broken:
            if path not in seen.objects or seen.table.store.head(path) is None:
                continue  # executed since it was listed, or never requested
            # What is merely too large may be sound: it is not deleted.
            untouched = clean.state is State.REQUESTED and isinstance(broken, CorruptTableError)
            yield error(
                NAME,
                f"the plan of {clean} cannot be read, which blocks all cleaning: {broken.message}",
                path=path,
                instant=clean.time,
                repair=Repair(RepairKind.DELETE_FILE, path) if untouched else None,
                advice="put its object back from a copy, or delete all objects of this clean: "
                "the next one makes a new plan",
            )


def _unreadable(instant: Instant, path: str, why: str) -> Finding:
    is_compaction = instant.action is Action.COMPACTION
    return error(
        NAME,
        f"the plan of {instant} cannot be read: {why}",
        path=path,
        instant=instant.time,
        advice="put its object back from a copy, or restore to a savepoint from before"
        if is_compaction
        else "tideline execute rollback",
    )


def _files(plan: Mapping[str, Any]) -> Iterator[str]:
    clustering = plan.get("clusteringPlan") or {}
    slices = [
        item for group in clustering.get("inputGroups") or () for item in group.get("slices") or ()
    ]
    for item in (*(plan.get("operations") or ()), *slices):
        for uri in (item.get("dataFilePath"), *(item.get("deltaFilePaths") or ())):
            if uri:
                yield join_path(item.get("partitionPath") or "", uri.rpartition("/")[2])
