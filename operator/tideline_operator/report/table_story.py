"""What a LakeTable's status says, for people. Pure: objects of the API server in, rows out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tideline.wording import size_text
from tideline_operator.api_objects import Manifest
from tideline_operator.resources.metadata import PAUSED_ANNOTATION, is_pause
from tideline_operator.resources.status import ConditionStatus, ConditionType, OperationPhase

STATUS_COLUMNS = (
    "namespace",
    "name",
    "format",
    "ready",
    "latest",
    "pending",
    "lag",
    "due",
    "now",
    "why",
)
PLAN_COLUMNS = ("what", "due", "why", "last run", "next run")
_ENDED = (OperationPhase.SUCCEEDED.value, OperationPhase.FAILED.value)
_TRUE, _FALSE, _UNKNOWN = (
    condition_status.value
    for condition_status in (ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN)
)
_USUAL = {
    ConditionType.PAUSED.value: (_FALSE,),
    # Unknown while there is no table, which Ready says.
    ConditionType.ADOPTED.value: (_TRUE, _UNKNOWN),
}
_HEALTH = (ConditionType.READY, ConditionType.SERVICES_CURRENT)
_NO_INGEST = "NoIngest"
_WHY_LENGTH_MAX = 80


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that is not as it should be, with what is known about it."""

    subject: str
    reason: str
    message: str


def status_row(table: Manifest) -> tuple[object, ...]:
    """A table in one row, as `STATUS_COLUMNS` names the cells."""
    metadata, status = table["metadata"], table.get("status") or {}
    ready = _conditions(status).get(ConditionType.READY.value, {})
    timeline = status.get("timeline") or {}
    return (
        metadata["namespace"],
        metadata["name"],
        format_of(table),
        _ready_text(ready),
        timeline.get("latest") or "",
        timeline.get("pendingCount", ""),
        status.get("lagFiles", ""),
        ", ".join(due_services(table)),
        ", ".join(operation_text(item) for item in running(table)),
        _first_reason(table),
    )


def format_of(table: Manifest) -> str:
    """The table's format."""
    return str((table.get("spec") or {}).get("format", "Hudi"))


def due_services(table: Manifest) -> list[str]:
    """The services that should run now."""
    services = _services(table.get("status") or {})
    return [name for name, service in services.items() if service.get("isDue")]


def running(table: Manifest) -> list[Manifest]:
    """The operations under way."""
    return [operation for operation in _operations(table) if operation.get("phase") not in _ENDED]


def operation_text(item: Manifest) -> str:
    """What an operation is, for people."""
    return " ".join(filter(None, (item.get("kind"), item.get("subject"))))


def plan_rows(table: Manifest) -> list[tuple[object, ...]]:
    """Ingests and services: what is due and why, as `PLAN_COLUMNS` names the cells."""
    status = table.get("status") or {}
    rows: list[tuple[object, ...]] = []
    for name, ingest in (status.get("ingest") or {}).items():
        waiting = int(ingest.get("lagFiles") or 0)
        records = int(ingest.get("lagRecords") or 0)
        what, number = ("record", records) if records else ("file", waiting)
        why = f"{number:,} {what + ' waits' if number == 1 else what + 's wait'}"
        if ingest.get("retainedBytes"):
            state = ingest.get("slotState")
            why += f"; the server keeps {size_text(int(ingest['retainedBytes']))} of log ({state})"
        rows.append((f"ingest {name}", waiting > 0, why, ingest.get("polledAt") or "", ""))
    services = _services(status).items()
    for name, service in sorted(services, key=lambda pair: not pair[1].get("isDue")):
        last = " ".join(filter(None, (service.get("lastRun"), service.get("lastResult"))))
        why, following = service.get("reason") or "", service.get("nextRun") or ""
        rows.append((name, bool(service.get("isDue")), why, last, following))
    return rows


def reasons(table: Manifest, *, namespace: Manifest | None = None) -> list[Reason]:
    """Why a table is not Ready, not current, or waits; empty when nothing is wrong."""
    found = []
    annotations = ((namespace or {}).get("metadata") or {}).get("annotations") or {}
    if is_pause(annotations):
        name = str(table["metadata"]["namespace"])
        message = f"kubectl annotate namespace {name} {PAUSED_ANNOTATION}- lets its tables continue"
        found.append(Reason(f"namespace {name}", "Paused", message))
    status = table.get("status") or {}
    seen, newest = status.get("observedGeneration"), table["metadata"].get("generation")
    if seen is None or (newest is not None and int(seen) < int(newest)):
        message = (
            "the operator has not seen the newest spec: does it run, and manage this namespace?"
        )
        found.append(Reason("spec", "NotSeen", message))
    for name, condition in _conditions(status).items():
        is_usual = condition.get("status") in _USUAL.get(name, (_TRUE,))
        is_usual = is_usual or condition.get("reason") == _NO_INGEST
        # The operator adds to Ready what waits for a place.
        if not is_usual or (name == ConditionType.READY.value and condition.get("message")):
            found.append(Reason(name, condition.get("reason", ""), condition.get("message", "")))
    # A failure that stands is one that Ready or ServicesCurrent speaks of.
    checked = [_conditions(status).get(condition_type.value, {}) for condition_type in _HEALTH]
    if all(item.get("status") == _TRUE for item in checked):
        return found
    return found + [_failure(item) for item in _newest_of_each(table) if _has_failed(item)]


def rerun_number(table: Manifest, name: str) -> int:
    """The number that makes `spec.rerun` run a service or an ingest once more.

    Raises KeyError when the table has neither of that name.
    """
    spec, status = table.get("spec") or {}, table.get("status") or {}
    ingests = [str(item.get("name")) for item in spec.get("ingest") or ()]
    services = _services(status)
    if name not in services and name not in ingests:
        raise KeyError(", ".join([*services, *ingests]))
    asked = int((spec.get("rerun") or {}).get(name, 0))
    return max(asked, int(services.get(name, {}).get("rerun") or 0)) + 1


def rerun_end(table: Manifest, name: str, number: int) -> Manifest | None:
    """The operation that `spec.rerun` asked for with this number, once it has ended: well, or in a
    way that a retry alone does not mend."""
    for operation in _operations(table):
        is_it = (
            name in (operation.get("subject"), operation.get("kind"))
            and operation.get("rerun") == number
        )
        if is_it and operation.get("phase") in _ENDED and not operation.get("isSafeToRetry"):
            return operation
    return None


def newest_operation(table: Manifest, operation: str | None) -> Manifest | None:
    """The operation with this id, else one that runs, else the newest."""
    operations = _operations(table)
    if operation is not None:
        return next((item for item in operations if item.get("id") == operation), None)
    under_way = running(table) or list(operations)
    return under_way[-1] if under_way else None


def _first_reason(table: Manifest) -> str:
    """The first of its reasons, in short."""
    first = next(iter(reasons(table)), None)
    if first is None:
        return ""
    text = first.message or f"{first.subject}: {first.reason}"
    return text if len(text) <= _WHY_LENGTH_MAX else f"{text[: _WHY_LENGTH_MAX - 1]}…"


def _failure(item: Manifest) -> Reason:
    again = f"; it is repeated at {item['retryAt']}" if item.get("retryAt") else ""
    message = f"{item.get('message') or 'no message'}{again}"
    return Reason(operation_text(item), item.get("error") or "Failed", message)


def _has_failed(item: Manifest) -> bool:
    return item.get("phase") == OperationPhase.FAILED.value


def _newest_of_each(table: Manifest) -> list[Manifest]:
    """The newest operation of each kind and subject."""
    newest = {
        (operation.get("kind"), operation.get("subject")): operation
        for operation in _operations(table)
    }
    return list(newest.values())


def _ready_text(ready: Mapping[str, Any]) -> str:
    if ready.get("status") == _TRUE:
        return "True"
    return f"{ready.get('status', 'Unknown')} ({ready.get('reason', 'not looked at yet')})"


def _conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {condition["type"]: condition for condition in status.get("conditions") or ()}


def _services(status: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    return status.get("services") or {}


def _operations(table: Manifest) -> Sequence[Manifest]:
    return (table.get("status") or {}).get("operations") or []
