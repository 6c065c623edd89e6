"""Handing operations to a warm worker: the values that operator and worker exchange. Pure.

1. The operator writes the operation into the table's status, with the worker's pod and a digest of
   the operation, and then creates a ConfigMap with the operation, labelled for that pod.
2. The worker says in its pod's metadata that it takes it. Then it reads the table, and begins only
   if its status still names this operation, this attempt, this pod and this digest (`objection`).
3. The worker's report, in its pod's metadata and in its termination message, names the newest
   operation it took and the result, and stays until the status has it.

So what is carried out is what the status says, and writing a status takes the operator's rights.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tideline.errors import ConfigError
from tideline.ingest.operation.operation import Operation
from tideline.ingest.operation.result import RESULT_BYTES_MAX, OperationResult

ASSIGNEE_LABEL = "tideline.dev/assignee"
"""On the ConfigMap: the uid of the pod it is for."""
TABLE_LABEL = "tideline.dev/table"
OPERATION_LABEL = "tideline.dev/operation"
KIND_LABEL = "tideline.dev/kind"
REPORT_ANNOTATION = "tideline.dev/report"
"""On the worker's pod: its WorkerReport."""
ASSIGNMENT_KEY = "hand-over.json"
HAND_OVER_REFUSED = "HandOverRefused"
"""The `error` of an operation whose content is not what the status names."""

_VERSION = 1
_UNDER_WAY = ("Pending", "Running")
_REPORT_BYTES_MAX = RESULT_BYTES_MAX - 256
"""A pod's termination message has to hold the report."""


@dataclass(frozen=True, slots=True)
class Stay:
    """For how long a worker may follow the source behind an operation, and how often it looks."""

    for_ms: int
    every_ms: int


NO_STAY = Stay(0, 0)
STAY_MS_MAX = 60_000
"""Whatever an assignment says: it is no part of what the status names."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """An operation for one worker. `name` is that of the ConfigMap; `content` is the operation as
    JSON, byte by byte what `digest` is of."""

    name: str
    table: str
    operation_id: str
    kind: str
    attempt: int
    content: str
    stay: Stay = NO_STAY

    @property
    def digest(self) -> str:
        return digest_of(self.content)

    @property
    def operation(self) -> Operation:
        """Raises ConfigError when the content is no operation of this version."""
        try:
            content = json.loads(self.content)
        except ValueError as error:
            raise ConfigError(f"this operation cannot be read: {error}") from error
        return Operation.from_json_object(content)

    def to_json(self) -> str:
        return json.dumps(
            {
                "version": _VERSION,
                "table": self.table,
                "operation": self.operation_id,
                "kind": self.kind,
                "attempt": self.attempt,
                "content": self.content,
                "stayMs": self.stay.for_ms,
                "lookEveryMs": self.stay.every_ms,
            },
            ensure_ascii=False,
        )

    @classmethod
    def parse(cls, name: str, text: str) -> Assignment:
        """Raises ConfigError when `text` is none of this version."""
        try:
            content = json.loads(text)
            if content["version"] != _VERSION:
                raise ConfigError(
                    f"this assignment has version {content['version']}, this release knows "
                    f"{_VERSION}"
                )
            return cls(
                name,
                str(content["table"]),
                str(content["operation"]),
                str(content["kind"]),
                int(content["attempt"]),
                str(content["content"]),
                Stay(
                    min(STAY_MS_MAX, int(content.get("stayMs", 0))),
                    max(0, int(content.get("lookEveryMs", 0))),
                ),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigError(f"this is not an assignment: {error}", value=text[:200]) from error


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """The newest operation that a worker took, and what came of it; None while it is under way."""

    operation_id: str
    attempt: int
    result: OperationResult | None = None

    def to_json(self) -> str:
        """One line that fits a termination message."""
        content: dict[str, Any] = {"operation": self.operation_id, "attempt": self.attempt}
        if self.result is not None:
            content["result"] = json.loads(self.result.to_json(_REPORT_BYTES_MAX))
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def parse(cls, text: str) -> WorkerReport | None:
        """None when `text` is no report."""
        try:
            content = json.loads(text)
            result = content.get("result")
            return cls(
                str(content["operation"]),
                int(content["attempt"]),
                None if result is None else OperationResult.from_json_object(result),
            )
        except (KeyError, TypeError, ValueError, AttributeError, ConfigError):
            return None

    def is_of(self, operation_id: str, attempt: int) -> bool:
        return (self.operation_id, self.attempt) == (operation_id, attempt)


def digest_of(content: str) -> str:
    """What the status says of an operation's content."""
    return hashlib.sha256(content.encode()).hexdigest()


def objection(assignment: Assignment, table: Mapping[str, Any] | None, pod_uid: str) -> str | None:
    """Why the worker in the pod must not begin, by the LakeTable object; None where it may."""
    if table is None:
        return f"there is no LakeTable {assignment.table}"
    if table["metadata"].get("deletionTimestamp"):
        return f"the LakeTable {assignment.table} is being deleted"
    entry = _entry(assignment.operation_id, assignment.attempt, table)
    if entry is None or entry.get("podUid") != pod_uid:
        return "the table's status does not name it as this worker's"
    if entry.get("phase") not in _UNDER_WAY:
        return f"the table's status says that it is {entry.get('phase')}"
    return None


def is_altered(assignment: Assignment, table: Mapping[str, Any]) -> bool:
    """Whether the content is not what the status of the LakeTable object names."""
    entry = _entry(assignment.operation_id, assignment.attempt, table) or {}
    return entry.get("digest") != assignment.digest


def is_acknowledged(report: WorkerReport, table: Mapping[str, Any] | None) -> bool:
    """Whether the status does not wait for this report any more."""
    if table is None:
        return True
    entry = _entry(report.operation_id, report.attempt, table)
    return entry is None or entry.get("phase") not in _UNDER_WAY


def _entry(operation_id: str, attempt: int, table: Mapping[str, Any]) -> Mapping[str, Any] | None:
    operations = (table.get("status") or {}).get("operations") or ()
    found = (
        operation
        for operation in operations
        if (operation.get("id"), operation.get("attempt", 1)) == (operation_id, attempt)
    )
    return next(found, None)
