"""The file groups that a pending plan names: nothing else may rearrange them meanwhile.

Compaction plans (HoodieCompactionPlan) name groups to compact, clustering plans
(HoodieRequestedReplaceMetadata) groups to rewrite. An overwrite has a requested replacecommit too,
empty or with an empty plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideline.formats.avro import decode_container
from tideline.table.file_group import FileGroupId
from tideline.timeline.instant import Action


def planned_groups(body: bytes, action: Action, *, path: str) -> tuple[FileGroupId, ...]:
    """The file groups that the body of a requested instant of `action` plans for.

    Raises CorruptTable naming `path` when it cannot be read.
    """
    if not body:
        return ()
    plan = decode_container(body, path=path)
    if action in (Action.COMPACTION, Action.LOGCOMPACTION):
        return tuple(_group(operation) for operation in plan.get("operations") or ())
    clustering = plan.get("clusteringPlan") or {}
    return tuple(
        _group(piece)
        for group in clustering.get("inputGroups") or ()
        for piece in group.get("slices") or ()
    )


def _group(item: Mapping[str, Any]) -> FileGroupId:
    return FileGroupId(item.get("partitionPath") or "", item.get("fileId") or "")
