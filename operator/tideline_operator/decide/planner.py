"""The planner: what to do about one table, from its spec, its status and what was observed.

A pure function of values, recomputed each time; only the status is kept between two plans, and
losing it only means looking again.

1. Suspended: nothing. Not observable: retry. Not adopted, or different from the spec: say why.
2. No bucket, or no table and a declared schema: create it. Otherwise the first batch creates it.
3. Roll back what dead writers left, before anything builds on the table. Where the last pods of a
   dead writer are still ending, wait for that.
4. Restore the savepoint that `restoreTo` names; make the savepoints that are missing.
5. For each ingest whose source was looked at: ingest what is next, in order of arrival; where
   there is nothing, settle what an earlier ingest left to do there.
6. Run the table services that are due: urgent ones before ingests, the others after them; of each
   kind those first that save most per core-second, as far as none builds on another.
7. Everything that is not due now has a moment to wait for.

Of an Iceberg table there is nothing to roll back, restore or savepoint. While there is none, and
neither columns nor an ingest that could make it are declared, the plan says so. One of a lower
version than the declared one is upgraded by the operation that would create it.

Operations run at the same time where the engine's rules let them (`concurrency`). One that failed
is retried with growing delays; one that succeeded and is planned again anyway is delayed likewise,
so that no mistake here becomes a hot loop.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.hudi.timeline.instant_time import InstantTime, is_instant_time
from tideline.ingest.operation.operation import Operation
from tideline.ingest.sources.iceberg_copies import copy_branch, why_stopped
from tideline.ingest.sources.resume import Claim, Refused, Resume, resume_of
from tideline.ingest.sources.source import (
    Available,
    Backlog,
    Declared,
    Limits,
    Lost,
    Nothing,
    Range,
)
from tideline.wording import counted
from tideline_operator.decide.actions import (
    Advise,
    Blocked,
    PlannedAction,
    Priority,
    Start,
    Wait,
    WaitKind,
)
from tideline_operator.decide.concurrency import may_begin_now
from tideline_operator.decide.due_services import basis_of, needs_of
from tideline_operator.decide.observed import Observed, ObservedSource, WriterState
from tideline_operator.decide.observed_iceberg import ObservedIceberg
from tideline_operator.decide.planned_operation import (
    create_operation,
    ingest_operation,
    is_wanted_again,
    restore_operation,
    rollback_operation,
    savepoint_operation,
    service_operation,
)
from tideline_operator.decide.service_ranking import in_order, rate_of
from tideline_operator.decide.service_triggers import ServiceNeed, restore_basis
from tideline_operator.decide.table_difference import difference_of
from tideline_operator.decide.triggers import next_poll_ms
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.lake_table import LakeTableSpec, TableFormat
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.services import ServiceMode
from tideline_operator.resources.status import LakeTableStatus, OperationPhase, OperationStatus

OBSERVE_RETRY_MS = 30_000
TABLE_MISMATCH = "TableMismatch"
NOT_ADOPTED = "NotAdopted"
CHANGED_PAUSE_MS = 10_000
"""The longest delay after a failure before other files, or a changed spec, are tried."""


def plan(
    table: ResolvedTable, status: LakeTableStatus, observed: Observed, now_ms: int
) -> tuple[PlannedAction, ...]:
    """Actions in order of importance: what to start, what to wait for, what is blocked."""
    spec = table.spec
    blocked = _standstill(spec, observed)
    if blocked is not None:
        return (blocked, *_look_again(observed, now_ms))
    planner = _Planner(table, status, observed, now_ms)
    actions = planner.plan()
    return tuple(sorted(actions, key=_order))


def resume_of_ingest(table: ResolvedTable, ingest: Ingest, observed: Observed) -> Resume | Refused:
    """The checkpoint that an ingest resumes from, or why its spec does not match it."""
    seen = observed.sources.get(ingest.name, ObservedSource())
    source, former = table.sources[ingest.name], table.former_sources.get(ingest.name)
    uri = table.location.uri
    claim = Claim(
        ingest.name,
        frozenset(item.name for item in table.spec.ingest),
        ingest.operation.value,
        source.kind,
        source.address(uri),
        ingest.renamed_from or "",
        former.address(uri) if former is not None else "",
    )
    return resume_of(claim, observed.checkpoints, seen.available)


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is ahead of an ingest: the next range, and all that waits."""

    next: Range | Nothing | Lost
    backlog: Backlog

    def is_quiet(self, source: Declared) -> bool:
        """Whether there is nothing to do, now or in a moment."""
        idle = isinstance(self.next, Nothing) and self.next.until_ms is None
        return idle and not self.is_cluttered(source)

    def is_cluttered(self, source: Declared) -> bool:
        """Whether there is something in the source that should have been settled."""
        return source.settles and self.backlog.remembered > 0


def ahead_of(available: Available, resume: Resume, *, parts_max: int, now_ms: int) -> Ahead:
    """What is ahead of an ingest that resumes so."""
    limits = Limits(parts_max, now_ms)
    position = None if resume.checkpoint is None else resume.checkpoint.position
    return Ahead(available.plan(position, limits), available.backlog(position, limits))


def ahead_of_ingest(
    table: ResolvedTable, ingest: Ingest, observed: Observed, now_ms: int
) -> Ahead | None:
    """What is ahead of an ingest; None when its source was not looked at, or its spec does not
    match its checkpoint."""
    seen = observed.sources.get(ingest.name)
    resume = resume_of_ingest(table, ingest, observed)
    if seen is None or seen.available is None or isinstance(resume, Refused):
        return None
    ahead = ahead_of(seen.available, resume, parts_max=ingest.max_files_per_commit, now_ms=now_ms)
    known = resume.checkpoint
    if known is None or not is_wanted_again(table.spec, ingest, known):
        return ahead
    again = seen.available.plan_again(known.position, inserts=ingest.operation.inserts)
    return Ahead(again, replace(ahead.backlog, parts=max(1, ahead.backlog.parts)))


def _order(action: PlannedAction) -> tuple[int, int]:
    match action:
        case Start():
            return 0, action.priority
        case Wait():
            return 1, action.until_ms
        case Advise():
            return 2, 0
        case Blocked():
            return 3, 0


def _standstill(spec: LakeTableSpec, observed: Observed) -> Blocked | None:
    """What blocks all work on the table."""
    if spec.suspend:
        whose = "of the table or its namespace"
        return Blocked("Paused", f"paused by spec.suspend, or by tideline.dev/paused {whose}")
    if observed.problem is not None:
        problem = observed.problem
        return Blocked(problem.reason, problem.message, exit_code=problem.exit_code)
    if observed.refused is not None:
        return Blocked(NOT_ADOPTED, observed.refused.message, exit_code=2)
    difference = difference_of(spec, observed.iceberg or observed.table)
    if difference is not None:
        return Blocked(TABLE_MISMATCH, difference, exit_code=2)
    return None


def _look_again(observed: Observed, now_ms: int) -> tuple[Wait, ...]:
    is_transient = observed.problem is not None and observed.problem.is_transient
    if not is_transient and observed.refused is None:
        return ()
    until_ms = now_ms + OBSERVE_RETRY_MS
    return (Wait("", WaitKind.RETRY, until_ms, "look at the table again"),)


class _Planner:
    """One plan in the making."""

    def __init__(
        self, table: ResolvedTable, status: LakeTableStatus, observed: Observed, now_ms: int
    ) -> None:
        self._table = table
        self._spec = table.spec
        self._status = status
        self._observed = observed
        self._now_ms = now_ms

    def plan(self) -> list[PlannedAction]:
        if self._spec.format is TableFormat.ICEBERG:
            return self._of_iceberg()
        if self._observed.lacks_bucket:
            reason = "there is no bucket at the location yet"
            return self._admit(create_operation(self._table), Priority.CREATE, reason)
        if self._observed.table is None and self._spec.schema:
            reason = "there is no table at the location yet"
            return self._admit(create_operation(self._table), Priority.CREATE, reason)
        if self._observed.table is None and not self._spec.ingest:
            message = (
                "there is no table at the location: give spec.schema or spec.ingest to create it"
            )
            return [Blocked("NoTable", message)]
        first = self._roll_back()
        if _has_start(first) or self._has_dead_writer() or self._has_ending_writer():
            return first
        restore = self._restore()
        if restore:
            # Until the restore is done, no service may build on the table or clean it.
            return first + restore + ([] if _has_start(restore) else self._ingests())
        savepoints = self._savepoints()
        if any(isinstance(action, Wait) for action in savepoints):
            # What runs ends, and nothing else begins before the savepoint.
            return first + savepoints
        return first + savepoints + self._ingests() + self._services()

    def _of_iceberg(self) -> list[PlannedAction]:
        table = self._observed.iceberg
        if table is None and self._spec.schema:
            reason = "there is no table at the location yet"
            return self._admit(create_operation(self._table), Priority.CREATE, reason)
        if table is None and self._spec.ingest:
            return self._ingests()
        if table is None:
            again = self._now_ms + OBSERVE_RETRY_MS
            return [
                Blocked("TableMissing", self._missing(), exit_code=1),
                Wait("", WaitKind.RETRY, again, "look for the table again"),
            ]
        lag = self._lag_of_version(table)
        upgrade: list[PlannedAction] = []
        if lag:
            upgrade = self._admit(create_operation(self._table), Priority.CREATE, lag)
            if not upgrade or _has_start(upgrade):
                return upgrade or self._once_it_is_quiet(lag)
        services = self._services()
        if table.files is None and table.count_at_ms is not None and not _has_start(services):
            reason = "count the files of the newest snapshot"
            services.append(Wait("", WaitKind.SETTLE, table.count_at_ms, reason))
        quiet_at_ms = None if table.files is None else table.files.quiet_at_ms
        if quiet_at_ms is not None:
            reason = "look at what other writers have left alone for long enough by then"
            services.append(Wait("", WaitKind.RETRY, quiet_at_ms + 1, reason))
        return upgrade + self._ingests() + services

    def _lag_of_version(self, table: ObservedIceberg) -> str:
        """Why the table is to be upgraded; empty where it is not."""
        wanted, found = self._spec.format_version, table.metadata.format_version
        if wanted is None or wanted <= found or self._spec.fenced:
            return ""
        return f"spec.formatVersion is {wanted}, and the table is of version {found}"

    def _missing(self) -> str:
        catalog = self._spec.catalog
        if catalog is not None:
            missing = f"catalog {catalog.name} has no table {catalog.table} yet"
        else:
            missing = f"there is no Iceberg table at {self._table.location.uri} yet"
        return f"{missing}; create it with the engine that writes it, or declare spec.schema"

    def _roll_back(self) -> list[PlannedAction]:
        pending = self._observed.table.pending if self._observed.table is not None else ()
        dead = tuple(instant.time for instant in pending if instant.is_dead)
        gone = tuple(
            instant.writer for instant in pending if instant.writer_state is WriterState.GONE
        )
        actions: list[PlannedAction] = []
        for instant in pending:
            if not instant.is_dead and instant.dead_at_ms is not None:
                reason = (
                    f"check whether the writer of {instant.time} ({instant.action}) is still alive"
                )
                actions.append(Wait("", WaitKind.HEARTBEAT, instant.dead_at_ms + 1, reason))
        if dead and not self._observed.running:
            reason = f"the writer of {', '.join(dead)} is gone"
            operation = rollback_operation(self._table, dead, gone)
            actions += self._admit(operation, Priority.ROLLBACK, reason)
        return actions

    def _has_dead_writer(self) -> bool:
        """Whether something has to be rolled back once what is under way has ended."""
        pending = self._observed.table.pending if self._observed.table is not None else ()
        return any(instant.is_dead for instant in pending) and bool(self._observed.running)

    def _has_ending_writer(self) -> bool:
        """Whether what a dead driver left can be rolled back soon, so that nothing else starts
        before; its heartbeat limits the wait."""
        pending = self._observed.table.pending if self._observed.table is not None else ()
        return any(instant.writer_state is WriterState.ENDING for instant in pending)

    def _restore(self) -> list[PlannedAction]:
        wanted, table = self._spec.restore_to, self._observed.table
        if wanted is None or table is None:
            return []
        target = table.savepoints.get(wanted, wanted)
        if target not in table.savepoints.values() or not is_instant_time(target):
            known = ", ".join(f"{name} ({time})" for name, time in table.savepoints.items())
            message = f"spec.restoreTo names {wanted!r}, which is not a savepoint; existing ones"
            return [Blocked("NoSavepoint", f"{message}: {known or 'none'}", exit_code=2)]
        basis = restore_basis(table.history, InstantTime(target))
        if basis is None:
            return []
        operation = restore_operation(self._table, target, basis=basis)
        reason = f"spec.restoreTo is {wanted}"
        return self._admit(operation, Priority.RESTORE, reason) or self._once_it_is_quiet(reason)

    def _savepoints(self) -> list[PlannedAction]:
        """Make the first missing one; an instant has one savepoint, so a second one waits."""
        table = self._observed.table
        if table is None:
            return []
        timeline = table.history.timeline
        newest = timeline.of(*COMMIT_ACTIONS).completed().last()
        if newest is None or newest.time in timeline.savepointed_times():
            return []
        for savepoint in self._spec.savepoints:
            if savepoint.name not in table.savepoints:
                operation = savepoint_operation(self._table, savepoint.name, str(newest.time))
                reason = "it is declared and missing"
                admitted = self._admit(operation, Priority.SAVEPOINT, reason)
                return admitted or self._once_it_is_quiet(reason)
        return []

    def _once_it_is_quiet(self, reason: str) -> list[PlannedAction]:
        """What wants the table for itself waits for what is under way, and nothing else begins."""
        again_ms = self._now_ms + OBSERVE_RETRY_MS
        return [Wait("", WaitKind.RETRY, again_ms, f"{reason}: when what is under way has ended")]

    def _services(self) -> list[PlannedAction]:
        needs = needs_of(self._spec, self._status, self._observed, self._now_ms)
        ordered = in_order(needs, self._status, self._observed)
        return [action for need in ordered for action in self._service(need)]

    def _service(self, need: ServiceNeed) -> list[PlannedAction]:
        if need.problem is not None:
            exit_code = need.problem.exit_code
            return [Blocked(need.problem.kind, need.reason, need.name, exit_code)]
        if not need.is_due:
            return []
        services = self._spec.services
        if services.mode is ServiceMode.ADVISE:
            return [Advise(need.name, need.reason)]
        window = services.maintenance_window
        if window is not None and not window.matches(self._now_ms):
            opens_ms = window.next_after(self._now_ms) or self._now_ms
            reason = f"due ({need.reason}), runs in the maintenance window"
            return [Wait(need.name, WaitKind.WINDOW, opens_ms, reason)]
        operation = service_operation(self._table, need, basis=basis_of(self._observed))
        priority = Priority.URGENT_SERVICE if need.is_urgent else Priority.SERVICE
        admitted = self._admit(operation, priority, need.reason, self._last_failure(operation))
        rate = rate_of(need, self._status, self._observed)
        return [
            replace(action, rate=rate) if isinstance(action, Start) else action
            for action in admitted
        ]

    def _last_failure(self, operation: Operation) -> OperationStatus | None:
        """The last run of a service if it failed: newer instants are no reason to retry sooner."""
        runs = [item for item in self._status.operations if item.kind == operation.kind.value]
        return runs[-1] if runs and runs[-1].phase is OperationPhase.FAILED else None

    def _ingests(self) -> list[PlannedAction]:
        if self._spec.restore_to is not None:
            message = "spec.restoreTo is set: nothing is ingested until it is removed"
            return [Blocked("Fenced", message)]
        if self._spec.fenced:
            return [Blocked("Fenced", "spec.fenced is set: nothing is written")]
        return [action for ingest in self._spec.ingest for action in self._ingest(ingest)]

    def _ingest(self, ingest: Ingest) -> list[PlannedAction]:
        resume = resume_of_ingest(self._table, ingest, self._observed)
        if isinstance(resume, Refused):
            return [Blocked(resume.reason, resume.message, ingest.name, exit_code=2)]
        seen = self._observed.sources.get(ingest.name)
        if seen is None:
            return self._next_look(ingest, None)
        if seen.problem is not None:
            problem = seen.problem
            blocked = Blocked(problem.reason, problem.message, ingest.name, problem.exit_code)
            until_ms = self._now_ms + OBSERVE_RETRY_MS
            again = f"look at {self._table.sources[ingest.name].whereabouts} again"
            return [blocked, Wait(ingest.name, WaitKind.RETRY, until_ms, again)]
        ahead = ahead_of_ingest(self._table, ingest, self._observed, self._now_ms)
        return self._take_in(ingest, resume, seen, ahead) if ahead else []

    def _take_in(
        self, ingest: Ingest, resume: Resume, seen: ObservedSource, ahead: Ahead
    ) -> list[PlannedAction]:
        source, backlog = self._table.sources[ingest.name], ahead.backlog
        following = ahead.next
        is_again = is_wanted_again(self._spec, ingest, resume.checkpoint)
        stopped = None if is_again else self._why_copy_stopped(ingest)
        if stopped is not None:
            blocked = Blocked("CopyStopped", stopped, ingest.name, exit_code=2)
            return [blocked, *self._next_look(ingest, seen)]
        if isinstance(following, Lost):
            lost = Blocked("SourceLost", str(following), ingest.name, exit_code=2)
            return [lost, *self._next_look(ingest, seen)]
        if not isinstance(following, Nothing):
            taken = len(following.names)
            reason = counted(max(backlog.parts, taken), f"new {source.part}")
            if backlog.parts > taken:
                reason = f"{taken:,} of {reason}"
        elif ahead.is_cluttered(source):
            following = source.no_range()
            reason = f"{counted(backlog.remembered, source.part)} taken in and still there"
        elif following.until_ms is None:
            return self._next_look(ingest, seen)
        else:
            wait = Wait(ingest.name, WaitKind.SETTLE, following.until_ms, following.reason)
            return [wait, *(self._next_look(ingest, seen) if following.may_be_earlier else ())]
        operation = ingest_operation(
            self._table, ingest, following, generation=resume.generation, is_again=is_again
        )
        actions = self._admit(operation, Priority.INGEST, reason)
        if backlog.parts or not following.names or _has_start(actions):
            return actions
        # What may have nothing waits; a look may say more of it.
        return [*actions, *self._next_look(ingest, seen)]

    def _why_copy_stopped(self, ingest: Ingest) -> str | None:
        table = self._observed.iceberg
        if table is None:
            return None
        branch = copy_branch(table.metadata, ingest.name, ingest.renamed_from or "")
        return None if branch is None else why_stopped(table.metadata, branch)

    def _next_look(self, ingest: Ingest, seen: ObservedSource | None) -> list[PlannedAction]:
        """Wait for the trigger. A prefix that was looked at just now counts as polled now."""
        status = self._status.ingest.get(ingest.name)
        checkpoints = self._observed.checkpoints
        at_ms = next_poll_ms(self._spec, ingest, status, checkpoints, self._now_ms)
        if at_ms is None:
            return []
        if seen is not None:
            every = ingest.trigger.every
            cron = ingest.trigger.cron
            if cron is not None:
                at_ms = cron.next_after(self._now_ms) or self._now_ms
            else:
                at_ms = self._now_ms + (every.ms if every else OBSERVE_RETRY_MS)
        is_missing = seen is not None and seen.available and not seen.available.exists
        source = self._table.sources[ingest.name]
        missing = f" (not there yet: {source.whereabouts})" if is_missing else ""
        return [Wait(ingest.name, WaitKind.POLL, at_ms, f"look for new {source.content}{missing}")]

    def _admit(
        self,
        operation: Operation,
        priority: Priority,
        reason: str,
        failed: OperationStatus | None = None,
    ) -> list[PlannedAction]:
        """Start it, unless it does not fit what is running or has to wait after the last attempt.

        `failed` is a failure of another operation that counts for this one as well.
        """
        if not may_begin_now(operation, self._table, self._status, self._observed):
            return []
        same = (item for item in self._status.operations if item.id == operation.id)
        last = failed or next(same, None)
        retry_at = last.retry_at if last is not None else self._pause_of(operation)
        if retry_at is not None and retry_at.ms > self._now_ms:
            again = "try the next files"
            if last is not None:
                again = "retry" if last.phase is OperationPhase.FAILED else "look again"
            subject = operation.subject or str(operation.kind)
            waited_for = last.id if last is not None else operation.id
            return [Wait(subject, WaitKind.RETRY, retry_at.ms, again, operation_id=waited_for)]
        attempt = last.attempt + 1 if last is not None else 1
        return [Start(operation, priority, reason, attempt)]

    def _pause_of(self, operation: Operation) -> Timestamp | None:
        """After a failure of another operation on the same subject: its pause, shortened."""
        for item in reversed(self._status.operations):
            if (item.kind, item.subject) != (operation.kind.value, operation.subject):
                continue
            failed = item.phase is OperationPhase.FAILED
            if not failed or item.retry_at is None or item.finished_at is None:
                return None
            return min(item.retry_at, Timestamp(item.finished_at.ms + CHANGED_PAUSE_MS))
        return None


def _has_start(actions: list[PlannedAction]) -> bool:
    return any(isinstance(action, Start) for action in actions)
