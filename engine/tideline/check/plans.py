"""Are the files there that pending compaction and clustering plans name?

A plan whose file is gone fails whenever it is run, and meanwhile keeps cleaning and archival from
going on. Plans that cannot be read at all are the timeline's findings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tideline.check.finding import Finding, error
from tideline.check.inspection import Inspection
from tideline.errors import CorruptTable, ObjectNotFound
from tideline.formats.avro import decode_container
from tideline.table.file_group import join_path
from tideline.timeline.instant import Action, State

NAME = "plans"


def check_plans(seen: Inspection) -> Iterator[Finding]:
    """Findings about files of pending plans."""
    services = (Action.COMPACTION, Action.LOGCOMPACTION, Action.REPLACECOMMIT, Action.CLUSTERING)
    for instant in seen.timeline.of(*services).pending():
        path = seen.table.timelines.path(instant.in_state(State.REQUESTED))
        try:
            body = seen.table.store.get(path)
            plan = decode_container(body, path=path) if body else {}
        except (ObjectNotFound, CorruptTable):
            continue
        for file in _files(plan):
            if seen.is_still_missing(file) and seen.table.store.head(path) is not None:
                yield error(
                    NAME,
                    f"{instant} needs a file that is missing",
                    path=file,
                    instant=instant.time,
                    advice="put it back from a copy, or restore to a savepoint from before",
                )


def _files(plan: Mapping[str, Any]) -> Iterator[str]:
    clustering = plan.get("clusteringPlan") or {}
    slices = [
        piece
        for group in clustering.get("inputGroups") or ()
        for piece in group.get("slices") or ()
    ]
    for piece in (*(plan.get("operations") or ()), *slices):
        for uri in (piece.get("dataFilePath"), *(piece.get("deltaFilePaths") or ())):
            if uri:
                yield join_path(piece.get("partitionPath") or "", uri.rpartition("/")[2])
