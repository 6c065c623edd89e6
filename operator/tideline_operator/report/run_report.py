"""What `tideline run` prints, for people and for machines.

On a terminal: progress bars while it works, then one line per operation. In a pipe: the lines.
With --json: one JSON object per line, `{"event": ...}`. Results go to standard output, problems to
standard error.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from tideline.ingest.operation.operation import Operation, RunService
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.secret_values import masked, masked_json
from tideline.services.benefit import NO_BENEFIT
from tideline.wording import counted, size_text, spending_text
from tideline_operator.decide.actions import Advise, Blocked, PlannedAction, Start, Wait
from tideline_operator.resources.status import ServiceStatus

ServiceStatuses = Mapping[str, ServiceStatus]
_NOTES_SHOWN = 5


class Reporter(Protocol):
    """Receives what the reconciler does."""

    def note(self, text: str) -> None:
        """Something worth knowing once."""

    def started(self, table: str, start: Start, *, files_waiting: int) -> None:
        """An operation starts; `files_waiting` counts the files that its ingest has to process."""

    def progressed(self, table: str, text: str) -> None:
        """The operation under way reports progress."""

    def finished(self, table: str, operation: Operation, result: OperationResult) -> None:
        """The operation has ended."""

    def resting(
        self, table: str, actions: tuple[PlannedAction, ...], services: ServiceStatuses, now_ms: int
    ) -> None:
        """There is nothing to start for this table; printed when it changes."""

    def close(self) -> None:
        """Leave the terminal tidy."""


class LineReporter:
    """Plain lines, or JSON lines."""

    def __init__(self, *, as_json: bool = False) -> None:
        self._as_json = as_json
        self._rested: dict[str, tuple[str, ...]] = {}

    def note(self, text: str) -> None:
        self._say({"event": "note", "text": text}, text, is_problem=True)

    def started(self, table: str, start: Start, *, files_waiting: int) -> None:
        self._rested.pop(table, None)
        if self._as_json:
            operation = start.operation
            event = {
                "event": "started",
                "table": table,
                "operation": operation.id,
                "kind": str(operation.kind),
                "subject": operation.subject,
                "attempt": start.attempt,
                "reason": start.reason,
                "files_waiting": files_waiting,
            }
            self._say(event, "")

    def progressed(self, table: str, text: str) -> None:
        """Lines say what was done, not what is being done."""

    def finished(self, table: str, operation: Operation, result: OperationResult) -> None:
        event = {
            "event": "finished",
            "table": table,
            "kind": str(operation.kind),
            "subject": operation.subject,
            **result.to_json_object(),
        }
        if not self._as_json and _is_idle_look(operation, result):
            return
        failed = result.outcome is Outcome.FAILED
        self._say(event, f"{table}  {describe_result(operation, result)}", is_problem=failed)
        if not self._as_json:
            for line in describe_columns(result):
                self._print(f"{table}    {line}")
            for line in describe_details(result):
                self._print(f"{table}    {line}", is_problem=True)

    def resting(
        self, table: str, actions: tuple[PlannedAction, ...], services: ServiceStatuses, now_ms: int
    ) -> None:
        # The moments move with every look; what is waited for does not.
        printed = (*(str(action) for action in actions), *describe_services(services))
        if self._rested.get(table) == printed:
            return
        self._rested[table] = printed
        if self._as_json:
            waiting = [rest_event(action, now_ms) for action in actions]
            known = {
                name: {"due": service.is_due, "reason": service.reason}
                for name, service in services.items()
            }
            event = {"event": "resting", "table": table, "next": waiting, "services": known}
            self._say(event, "")
            return
        for line in (*describe_rest(actions, now_ms), *describe_services(services)):
            self._print(f"{table}  {line}")

    def close(self) -> None:
        """There is nothing to close."""

    def _say(self, event: Mapping[str, Any], text: str, *, is_problem: bool = False) -> None:
        if self._as_json:
            self._print(json.dumps(masked_json(event), ensure_ascii=False))
        else:
            self._print(text, is_problem=is_problem)

    def _print(self, text: str, *, is_problem: bool = False) -> None:
        text = text if self._as_json else masked(text)
        print(text, file=sys.stderr if is_problem else sys.stdout, flush=True)


class TerminalReporter(LineReporter):
    """Lines, and below them one bar for each ingest that is under way."""

    def __init__(self) -> None:
        super().__init__()
        self._console = Console(highlight=False)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.completed:.0f}/{task.total:.0f} files"),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[doing]}"),
            console=self._console,
            transient=True,
        )
        self._bars: dict[tuple[str, str], TaskID] = {}
        self._current: TaskID | None = None

    def started(self, table: str, start: Start, *, files_waiting: int) -> None:
        super().started(table, start, files_waiting=files_waiting)
        self._progress.start()
        key = (table, start.operation.subject)
        if key not in self._bars:
            name = " ".join(word for word in key if word)
            self._bars[key] = self._progress.add_task(name, total=0, doing="starting Spark")
        self._current = self._bars[key]
        done = self._progress.tasks[self._progress.task_ids.index(self._current)].completed
        self._progress.update(self._current, total=max(1, done + files_waiting))

    def progressed(self, table: str, text: str) -> None:  # noqa: ARG002
        if self._current is not None:
            self._progress.update(self._current, doing=text)

    def finished(self, table: str, operation: Operation, result: OperationResult) -> None:
        super().finished(table, operation, result)
        if self._current is not None:
            files = result.source_files + len(result.skipped)
            self._progress.update(self._current, advance=files, doing="")

    def resting(
        self, table: str, actions: tuple[PlannedAction, ...], services: ServiceStatuses, now_ms: int
    ) -> None:
        for key in [key for key in self._bars if key[0] == table]:
            self._progress.remove_task(self._bars.pop(key))
        self._current = None
        if not self._bars:
            self._progress.stop()
        super().resting(table, actions, services, now_ms)

    def close(self) -> None:
        self._progress.stop()

    def _print(self, text: str, *, is_problem: bool = False) -> None:
        style = "yellow" if is_problem else None
        self._console.print(masked(text), style=style, markup=False, soft_wrap=True)


def describe_result(operation: Operation, result: OperationResult) -> str:
    """One line about what an operation did."""
    name = operation.title
    if result.outcome is Outcome.FAILED:
        return f"{name} failed (exit code {result.exit_code}): {result.message}"
    if operation.kind.service is not None or result.write_operation is None:
        return f"{name}  {_describe_service(result)}"
    rows = (
        f"{counted(result.rows_inserted, 'row')} inserted, {result.rows_updated:,} updated, "
        f"{result.rows_deleted:,} deleted"
    )
    return (
        f"{name}  {result.instant} {result.write_operation}: "
        f"{result.taken_in} ({size_text(result.source_bytes)}) in, {rows}, "
        f"{counted(result.files_written, 'data file')} ({size_text(result.bytes_written)}) written "
        f"in {result.seconds:.1f} s"
    )


def rest_event(action: PlannedAction, now_ms: int) -> dict[str, Any]:
    """A planned action of an idle table, for machines."""
    match action:
        case Wait():
            seconds = round(max(0, action.until_ms - now_ms) / 1000, 3)
            return {
                "wait": action.kind.value,
                "subject": action.subject,
                "reason": action.reason,
                "seconds": seconds,
            }
        case Blocked():
            return {
                "blocked": action.reason,
                "subject": action.subject,
                "message": action.message,
                "exit_code": action.exit_code,
            }
        case Advise():
            return {"advice": action.subject, "reason": action.reason}
        case Start():
            return {"start": action.operation.id}


def _is_idle_look(operation: Operation, result: OperationResult) -> bool:
    """A service that looked at files and found nothing to do, without having been asked for."""
    work = operation.work
    is_unasked = isinstance(work, RunService) and work.rerun is None
    return is_unasked and result.outcome is Outcome.NOTHING and not result.notes


def _describe_service(result: OperationResult) -> str:
    """What a service did, or any operation that ingested no rows."""
    sizes = (
        (result.bytes_read, "read"),
        (result.bytes_written, "written"),
        (result.bytes_deleted, "freed"),
    )
    parts = [f"{size_text(size)} {what}" for size, what in sizes if size]
    if result.rows_written:
        parts.append(counted(result.rows_written, "row"))
    if result.rows_set_aside:
        parts.append(f"{counted(result.rows_set_aside, 'row')} set aside")
    at = f"{result.instant}: " if result.instant else ""
    took = f" in {result.seconds:.1f} s" if result.outcome is Outcome.SUCCEEDED else ""
    words = at + (result.message or "done")
    line = ", ".join([words, *parts]) + (took if parts else "")
    if result.saved == NO_BENEFIT:
        return line
    spent = spending_text(result.core_seconds, result.requests)
    return f"{line}; saves {result.saved.words}, took {spent}"


def describe_columns(result: OperationResult) -> list[str]:
    """Which columns of the table are new, or wider."""
    changes = (("new", result.columns_added), ("wider", result.columns_widened))
    return [f"{what} columns: {', '.join(columns)}" for what, columns in changes if columns]


def describe_details(result: OperationResult) -> list[str]:
    """Further lines: files set aside, and notes."""
    lines = [f"set aside {file.path}: {file.reason}" for file in result.skipped[:_NOTES_SHOWN]]
    more = len(result.skipped) - _NOTES_SHOWN
    if more > 0:
        lines.append(f"set aside {counted(more, 'more file')}")
    return [*lines, *result.notes]


def describe_rest(actions: tuple[PlannedAction, ...], now_ms: int) -> list[str]:
    """What is blocked and what comes next, when there is nothing to start."""
    lines = [f"stopped: {action}" for action in actions if isinstance(action, Blocked)]
    lines += [f"advice: {action}" for action in actions if isinstance(action, Advise)]
    waits = [action for action in actions if isinstance(action, Wait)]
    for wait in waits:
        lines.append(f"next: {wait} {moment_text(wait.until_ms, now_ms)}")
    return lines or ["nothing to do"]


def describe_services(services: ServiceStatuses) -> list[str]:
    """Why services are not due."""
    return [
        f"not due: {name}: {service.reason}"
        for name, service in services.items()
        if not service.is_due and service.reason
    ]


def moment_text(until_ms: int, now_ms: int) -> str:
    """`in 30 s`, or a time of day when that is further away."""
    seconds = max(0.0, (until_ms - now_ms) / 1000)
    if seconds < 120:
        return f"in {seconds:.0f} s"
    if seconds < 7200:
        return f"in {seconds / 60:.0f} min"
    return f"at {datetime.fromtimestamp(until_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"
