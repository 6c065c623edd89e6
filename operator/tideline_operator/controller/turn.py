"""What one turn for a table knows, and what is remembered of the table between turns."""

from __future__ import annotations

from dataclasses import dataclass, field

from tideline.ingest.operation.result import OperationResult
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.table_source import Declared
from tideline_operator.controller.troubles import Troubles
from tideline_operator.controller.work_queue import Key
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import LakeTableStatus, OperationStatus


@dataclass(slots=True)
class Turn:
    """What one turn knows. `item` is the object as it was last read or written; `in_force` says
    which spec is in force where the newest one is not valid.
    """

    key: Key
    item: Manifest
    status: LakeTableStatus
    reported: LakeTableStatus
    now_ms: int
    spec_problem: str | None = None
    in_force: str = ""
    look_at_ms: int | None = None
    ended: list[tuple[OperationStatus, OperationResult]] = field(default_factory=list)


@dataclass(slots=True)
class Memory:
    """What is remembered of a table between turns; all of it may be lost."""

    polled: dict[str, Timestamp] = field(default_factory=dict)
    status: tuple[str, LakeTableStatus] | None = None
    declared: tuple[object, Declared] | None = None
    resolved: ResolvedTable | None = None
    troubles: Troubles = field(default_factory=Troubles)
