"""The file groups that a pending plan names: nothing else may rearrange them while it is pending.

Compaction plans (HoodieCompactionPlan) name groups to compact, clustering plans
(HoodieRequestedReplaceMetadata) groups to rewrite. An overwrite has a requested replacecommit too,
empty or with an empty plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideline.bounded.parsing import parser
from tideline.formats.avro import decode_container
from tideline.hudi.table.file_group import BaseFile, FileGroupId, FileSlice, LogFile
from tideline.hudi.timeline.instant import Action
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time


@parser("a plan lacks a field, or one is wrong")
def planned_groups(body: bytes, action: Action, *, path: str) -> tuple[FileGroupId, ...]:
    """The file groups that the body of a requested instant of `action` plans for.

    Raises CorruptTableError naming `path` when it cannot be read.
    """
    if not body:
        return ()
    plan = decode_container(body, path=path)
    if action in (Action.COMPACTION, Action.LOGCOMPACTION):
        return tuple(_group(operation) for operation in plan.get("operations") or ())
    clustering = plan.get("clusteringPlan") or {}
    return tuple(
        _group(item)
        for group in clustering.get("inputGroups") or ()
        for item in group.get("slices") or ()
    )


def operation_record(file_slice: FileSlice, metrics: Mapping[str, float]) -> dict[str, Any]:
    """A slice as an operation of a HoodieCompactionPlan: bare file names."""
    base = file_slice.base_file
    return {
        "baseInstantTime": str(file_slice.base_instant),
        "deltaFilePaths": [log.name for log in file_slice.log_files],
        "dataFilePath": base.name if base else None,
        "fileId": file_slice.file_id,
        "partitionPath": file_slice.partition,
        "metrics": dict(metrics),
        "bootstrapFilePath": None,
    }


def _group(item: Mapping[str, Any]) -> FileGroupId:
    return FileGroupId(item.get("partitionPath") or "", item.get("fileId") or "")


@parser("a plan lacks a field, or one is wrong")
def planned_slices(
    body: bytes, action: Action, *, path: str
) -> Mapping[FileGroupId, InstantTime | None]:
    """The file groups that a plan names, each with the base instant of the slice it will read.

    None where the plan does not say. Raises as `planned_groups`.
    """
    if not body:
        return {}
    plan = decode_container(body, path=path)
    if action in (Action.COMPACTION, Action.LOGCOMPACTION):
        operations = plan.get("operations") or ()
        return {_group(item): _instant(item.get("baseInstantTime")) for item in operations}
    clustering = plan.get("clusteringPlan") or {}
    return {
        _group(item): _base_instant(item)
        for group in clustering.get("inputGroups") or ()
        for item in group.get("slices") or ()
    }


def _base_instant(item: Mapping[str, Any]) -> InstantTime | None:
    """The base instant that the names of a slice's files carry (timeline layout 1)."""
    for uri in (item.get("dataFilePath"), *(item.get("deltaFilePaths") or ())):
        name = (uri or "").rpartition("/")[2]
        file = LogFile.parse("", name) if name.startswith(".") else BaseFile.parse("", name)
        if file is not None:
            return file.instant
    return None


def _instant(text: str | None) -> InstantTime | None:
    return InstantTime(text) if text and is_instant_time(text) else None
