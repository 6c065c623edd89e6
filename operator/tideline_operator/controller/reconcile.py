"""One turn for one table: observe, plan, act, report. Everything is recomputed each time.

1. Resolve what is declared. What cannot be resolved is reported in the conditions, and the turn
   ends.
2. Settle the operations under way by their Jobs; what ended goes into events and the status. Other
   tables that wait for a warm worker get it before anything else.
3. Look at the table, find out which writers' pods have ended, and plan.
4. If the plan starts something and there is a place for it: write it into the status, which only
   one controller can do, and then create its Job. After a death in between the next turn makes the
   same plan and creates the same Job, or the objects that are missing.
5. Write the status if it changed, and return when to look again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from tideline.clock import Clock
from tideline.errors import TidelineError
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.attempt_spans import record_job_span, record_reconcile_span
from tideline_operator.controller.budgets import Admitted, Budgets, Full, TooLarge
from tideline_operator.controller.controller_metrics import ControllerMetrics
from tideline_operator.controller.endpoints import Endpoints, endpoints_of
from tideline_operator.controller.event_recorder import EventRecorder, TableEvent
from tideline_operator.controller.job_starter import JobStarter
from tideline_operator.controller.namespace_pauses import PAUSED_LOOK_S, NamespacePauses
from tideline_operator.controller.next_look import NextLooks, jittered
from tideline_operator.controller.poll_pacing import PollPacing
from tideline_operator.controller.reconciliation import Reconciliation
from tideline_operator.controller.settlement import (
    Settlement,
    Settler,
    refused,
    to_be_replaced,
)
from tideline_operator.controller.status_writer import StatusWriter
from tideline_operator.controller.table_events import events_of, series_of
from tideline_operator.controller.table_session import TableSessions
from tideline_operator.controller.table_source import (
    Declared,
    TableSource,
    Unresolved,
    declared_table,
)
from tideline_operator.controller.work_queue import Key
from tideline_operator.controller.worker_places import AwaitingPod, Later, Recorded, WorkerPlaces
from tideline_operator.controller.writer_state import WriterStates
from tideline_operator.decide.actions import Blocked, PlannedAction, Start, Wait, WaitKind
from tideline_operator.decide.observed import Observed
from tideline_operator.decide.planner import plan
from tideline_operator.launch.driver_job import job_name
from tideline_operator.launch.job_launcher import StartRefused
from tideline_operator.observe.problems import problem_of
from tideline_operator.reading.reader import Reader
from tideline_operator.report.conditions import not_looked_at, redated, troubles_of_sources
from tideline_operator.report.status import (
    observed_status,
    operation_finished,
    operation_started,
    with_entry,
    without_entry,
)
from tideline_operator.resources.parsing import parse_stored
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.schedule import Timestamp
from tideline_operator.resources.status import (
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
)

_LAST_GOES_ON = "the last valid spec stays in force"
_NONE_GOES_ON = (
    "this version refuses the last valid spec as well: nothing is done with the table until the "
    "spec is corrected"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a reconciler works with."""

    sessions: TableSessions
    source: TableSource
    pauses: NamespacePauses
    settler: Settler
    reader: Reader
    writer_states: WriterStates
    starter: JobStarter
    places: WorkerPlaces
    budgets: Budgets
    endpoints: Endpoints
    wake: Callable[[Key], None]
    writer: StatusWriter
    events: EventRecorder
    pacing: PollPacing
    metrics: ControllerMetrics
    clock: Clock
    resync_s: float


class TableReconciler:
    """Takes turns for tables; any number of threads, one per table at a time."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.on_resolved: Callable[[Key, ResolvedTable], None] = lambda *_: None
        self.on_observed: Callable[[Manifest, Observed], None] = lambda *_: None
        self._looks = NextLooks(parts.pacing, parts.resync_s)

    def reconcile(self, key: Key, item: Manifest) -> float:
        """Take a turn for a table that is not being deleted; seconds until the next.

        Raises StaleStatusError, ApiUnavailableError, ApiRefusedError: repeat the turn.
        """
        turn = self._begin(key, item)
        blockers = turn.session.blockers
        blockers.begin_turn()
        delay_s = self._take(turn)
        blockers.end_turn()
        return delay_s

    def _take(self, turn: Reconciliation) -> float:
        parts, key, item = self._parts, turn.key, turn.item
        closed = parts.source.closed(key[0])
        declared = self._declared(turn)
        turn.spec_problem = declared.problem
        if turn.status.last_valid_spec:
            turn.in_force = _LAST_GOES_ON if declared.table is not None else _NONE_GOES_ON
        if closed is not None:
            # Not even a Job can be stopped there, and no event be written.
            status = turn.with_spec_condition(turn.of_this_generation())
            turn.status = not_looked_at(status, closed.reason, closed.message, turn.now_ms)
            self._publish(turn)
            return self._looks.after_problem(turn.session)
        if declared.problem is not None:
            note = f"spec is not valid: {declared.problem}"
            self._report_trouble(turn, "SpecInvalid", declared.problem, note)
        settled = parts.settler.settle(key, turn.status, turn.now_ms)
        self._report_ends(turn, settled)
        self._free_workers(turn)
        if declared.placed is not None:
            parts.source.hold(item, declared.placed)
        if declared.table is None:
            return self._rest(turn, settled, Unresolved("SpecInvalid", str(declared.problem)))
        if declared.problem is None:
            valid = dict(item["spec"])
            turn.status = replace(turn.status, last_valid_spec=valid)
        resolved = parts.source.resolve(item, declared.table)
        if isinstance(resolved, Unresolved):
            if resolved.placed is not None:
                self.on_resolved(key, resolved.placed)
            return self._rest(turn, settled, resolved)
        is_paused = parts.pauses.is_paused(key[0])
        resolved = replace(resolved, is_namespace_paused=is_paused)
        turn.session.resolved = resolved
        self.on_resolved(key, resolved)
        self._replace_outdated(turn, settled, resolved)
        if not parts.endpoints.enter(key, endpoints_of(resolved)):
            # As many of its endpoint's tables as may be are being looked at; it is woken later.
            if not settled.running:
                parts.budgets.release(key)
            self._publish(turn)
            return self._looks.at_resync()
        try:
            return self._work(turn, settled, resolved)
        finally:
            for waiting in parts.endpoints.leave(key):
                parts.wake(waiting)

    def _replace_outdated(
        self, turn: Reconciliation, settled: Settlement, table: ResolvedTable
    ) -> None:
        """Stop Jobs and workers whose drivers never ran, and that would be made differently now."""
        for entry, made_from in settled.unstarted:
            if made_from not in ("", self._parts.places.made_from(table, entry)):
                job = entry.worker or job_name(entry.id, entry.attempt)
                self._parts.starter.stop(turn.key[0], job)
                turn.status = with_entry(turn.status, to_be_replaced(entry))
                _log.info("replacing a Job that never ran", extra=turn.about(entry))

    def _begin(self, key: Key, item: Manifest) -> Reconciliation:
        session = self._parts.sessions.of(key)
        version = str(item["metadata"]["resourceVersion"])
        if session.status is None or session.status[0] != version:
            found = parse_stored(LakeTableStatus, item.get("status") or {})
            session.status = version, found or LakeTableStatus()
        status = session.status[1]
        ingests = {
            name: replace(seen, polled_at=session.polled.get(name, seen.polled_at))
            for name, seen in status.ingest.items()
        }
        status = replace(status, ingest=ingests)
        now_ms = self._parts.clock.now_ms()
        return Reconciliation(key, session, item, status, status, now_ms, began_ms=now_ms)

    def _declared(self, turn: Reconciliation) -> Declared:
        """What the object declares, parsed once for each of its generations."""
        metadata, session = turn.item["metadata"], turn.session
        names = ("uid", "generation", "annotations")
        version = tuple(str(metadata.get(name)) for name in names)
        if session.declared is not None and session.declared[0] == version:
            return session.declared[1]
        declared = declared_table(turn.item, turn.status.last_valid_spec)
        # What is not valid depends on the status as well.
        session.declared = (version, declared) if declared.problem is None else None
        return declared

    def _report_ends(self, turn: Reconciliation, settled: Settlement) -> None:
        """Put the ends into the status, and record their events.

        Recorded before the status is written: recording twice changes nothing, and a death in
        between loses none.
        """
        turn.status = settled.status
        parts = self._parts
        pending = set() if settled.pending is None else {settled.pending.id}
        parts.budgets.keep_only(turn.key, settled.running | pending)
        for operation_id in settled.running:
            memory_bytes = settled.places.get(operation_id)
            if memory_bytes is None:
                parts.budgets.set_aside(turn.key, operation_id)
            else:
                parts.budgets.hold(turn.key, memory_bytes, operation_id)
        turn.ended = settled.ended
        for entry, result in settled.ended:
            for event in events_of(entry, result, turn.status):
                parts.events.record(turn.item, event)

    def _free_workers(self, turn: Reconciliation) -> None:
        """Where tables wait for a worker, the next has it while this table is looked at."""
        parts = self._parts
        workers = parts.places.workers
        if workers.waiting and any(entry.worker for entry, _ in turn.ended):
            self._publish(turn)
            for waiting in workers.next_in_line():
                parts.wake(waiting)

    def _count_ends(self, turn: Reconciliation) -> None:
        """The ends are in the status now: count them, once."""
        parts = self._parts
        for entry, result in turn.ended:
            seconds = max(0.0, (turn.now_ms - entry.started_at.ms) / 1000)
            parts.metrics.note_end(entry.kind, result, seconds)
            text = f"{result.outcome.value}: {result.message or 'done'}"
            _log.info(text, extra=turn.about(entry, round(seconds, 1)))
            record_job_span(turn, entry, result)
        turn.ended = []

    def _work(self, turn: Reconciliation, settled: Settlement, table: ResolvedTable) -> float:
        parts = self._parts
        before = turn.status
        if settled.pending is not None:
            # Not started yet: it is planned once more, with the same result if nothing changed.
            before = without_entry(before, settled.pending.id)
        running = frozenset(settled.running)
        observed = self._observe(table, before, running)
        self.on_observed(turn.item, observed)
        turn.status, blocked = parts.source.check_claims(turn.item, table, turn.status, observed)
        if blocked is not None:
            return self._rest(turn, settled, blocked)
        before = replace(before, claims=turn.status.claims)
        observed = parts.writer_states.check(turn.key, before, observed)
        turn.now_ms = parts.clock.now_ms()
        actions = plan(table, before, observed, turn.now_ms)
        self._note_polls(turn, table, observed, actions)
        status = observed_status(table, before, observed, actions, turn.now_ms)
        turn.status = self._with_notes(turn, settled, status)
        for action in actions:
            if isinstance(action, Blocked) and action.exit_code:
                self._report_trouble(turn, action.reason, action.subject, str(action))
        for reason, name, words in troubles_of_sources(turn.status):
            self._report_trouble(turn, reason, name, words)
        start = _chosen(actions, settled)
        half_started = settled.pending if settled.is_half_started else None
        if half_started is not None and (start is None or start.operation.id != half_started.id):
            self._take_back(turn, half_started)
        elif start is not None:
            recorded = Recorded(settled.pending, settled.has_job, settled.pending_holds_place)
            self._start(turn, table, start, recorded)
            if half_started is not None and not _is_noted(turn.status, half_started):
                turn.status = with_entry(turn.status, half_started)
        else:
            parts.budgets.keep_only(turn.key, running)
            parts.budgets.leave_line(turn.key)
            parts.places.workers.stop_waiting(turn.key)
        self._publish(turn)
        delay_s = self._next_look_s(turn, settled, observed, actions)
        return min(delay_s, jittered(PAUSED_LOOK_S)) if table.is_namespace_paused else delay_s

    def _observe(
        self, table: ResolvedTable, status: LakeTableStatus, running: frozenset[str]
    ) -> Observed:
        try:
            access = self._parts.source.access(table)
        except TidelineError as error:
            return Observed(running=running, problem=problem_of(error))
        return self._parts.reader.observe(access, table, status, running=running)

    def _start(
        self, turn: Reconciliation, table: ResolvedTable, start: Start, recorded: Recorded
    ) -> None:
        """Record the operation, then hand it to a worker or create its Job; or report why it does
        not start now."""
        parts = self._parts
        operation = start.operation
        place = parts.places.place_of(turn.key, table, start, turn.status, recorded)
        pending = recorded.entry
        if isinstance(place, Later):
            turn.look_at_ms = place.until_ms
            parts.budgets.release(turn.key, operation.id)
            parts.budgets.leave_line(turn.key)
            turn.note_ready(None, f"{operation.title} is waiting: {place.message}")
            return
        admission = parts.budgets.admit(
            turn.key, start.priority, place.memory_bytes, start.rate, operation=operation.id
        )
        match admission:
            case Full(message=message):
                turn.note_ready(None, f"{operation.title} is waiting: {message}")
                return
            case TooLarge(message=message):
                turn.note_ready("OverBudget", f"{operation.kind}: {message}")
                return
            case Admitted():
                pass
        turn.status = operation_started(
            turn.status,
            operation,
            start.attempt,
            turn.now_ms,
            phase=OperationPhase.PENDING,
            memory_bytes=place.memory_bytes,
        )
        noted = place.noted(turn.status.operations[-1])
        if pending is not None and pending.id == noted.id:
            noted = replace(
                noted,
                failures=pending.failures,
                message=pending.message,
                started_at=pending.started_at,
            )
        turn.status = with_entry(turn.status, noted)
        self._publish(turn)
        _log.info("starting: %s", start.reason, extra=turn.about(turn.status.operations[-1]))
        outcome = parts.places.start(place, table, start, turn.item)
        if isinstance(outcome, AwaitingPod):
            if not recorded.holds_place:
                parts.budgets.set_aside(turn.key, operation.id)
            return
        if isinstance(outcome, StartRefused):
            self._note_refused(turn, start, outcome.message)
            # No Job and no pod will wake the table: when to retry is in the next plan.
            turn.look_at_ms = turn.now_ms
            return
        started = replace(turn.status.operations[-1], phase=OperationPhase.RUNNING)
        turn.status = with_entry(turn.status, started)
        if outcome.is_new:
            record_reconcile_span(turn, started, start.reason, parts.clock.now_ms())

    def _note_refused(self, turn: Reconciliation, start: Start, message: str) -> None:
        """The Job could not be created: the operation failed."""
        operation = start.operation
        self._parts.budgets.release(turn.key, operation.id)
        result = refused(operation.id, message)
        turn.status = operation_finished(turn.status, result, turn.now_ms)
        turn.note_ready("OperationFailed", message)
        note = f"{operation.title}: {message}"
        series = series_of(turn.status.operations[-1], turn.status)
        occurrence = f"{operation.id}-{start.attempt}"
        event = TableEvent("OperationRefused", series, note, True, occurrence)
        self._parts.events.record(turn.item, event)

    def _take_back(self, turn: Reconciliation, half_started: OperationStatus) -> None:
        """Remove the Job of an operation that is not wanted any more, or the worker that may have
        got it."""
        job = half_started.worker or job_name(half_started.id, half_started.attempt)
        self._parts.starter.stop(turn.key[0], job)
        stopping = replace(half_started, phase=OperationPhase.RUNNING)
        turn.status = with_entry(turn.status, stopping)

    def _rest(self, turn: Reconciliation, settled: Settlement, unresolved: Unresolved) -> float:
        """Nothing can be done: report why, and return when to look again."""
        parts = self._parts
        parts.places.workers.stop_waiting(turn.key)
        if not settled.running:
            parts.budgets.release(turn.key)
        reason, message = unresolved.reason, unresolved.message
        status = not_looked_at(turn.of_this_generation(), reason, message, turn.now_ms)
        if reason != "SpecInvalid":
            self._report_trouble(turn, reason, message, message)
        turn.status = turn.with_spec_condition(status)
        self._publish(turn)
        if unresolved.may_heal:
            return self._looks.after_problem(turn.session)
        return self._looks.at_resync()

    def _with_notes(
        self, turn: Reconciliation, settled: Settlement, status: LakeTableStatus
    ) -> LakeTableStatus:
        turn.status = turn.with_spec_condition(status)
        if settled.stuck is not None:
            turn.note_ready("OperationStuck", settled.stuck)
            self._record_stuck(turn, settled)
        return turn.status

    def _record_stuck(self, turn: Reconciliation, settled: Settlement) -> None:
        """An event for an attempt that makes no progress, and another one when it is given up."""
        entry = settled.stuck_entry
        if entry is None or settled.stuck is None:
            return
        occurrence = f"{entry.id}-{entry.attempt}" + ("-given-up" if settled.is_given_up else "")
        series = series_of(entry, turn.status)
        event = TableEvent("OperationStuck", series, settled.stuck, True, occurrence)
        self._parts.events.record(turn.item, event)

    def _report_trouble(self, turn: Reconciliation, reason: str, subject: str, note: str) -> None:
        """An event for trouble that lasts until a user, or time, resolves it."""
        since_ms = turn.session.blockers.since_ms(reason, subject, turn.reported, turn.now_ms)
        event = TableEvent(reason, f"{subject}@{since_ms}", note, is_warning=True)
        self._parts.events.record(turn.item, event)

    def _note_polls(
        self,
        turn: Reconciliation,
        table: ResolvedTable,
        observed: Observed,
        actions: tuple[PlannedAction, ...],
    ) -> None:
        """A source with something in its way stays due, so that each turn comes to the same."""
        session = turn.session
        blocked = {action.subject for action in actions if isinstance(action, Blocked)}
        for name, seen in observed.sources.items():
            if seen.problem is None and name not in blocked:
                session.polled[name] = Timestamp(turn.now_ms)
        names = {ingest.name for ingest in table.spec.ingest}
        session.polled = {name: at for name, at in session.polled.items() if name in names}

    def _publish(self, turn: Reconciliation) -> None:
        """Write the status if it says more than before."""
        parts = self._parts
        turn.status = redated(turn.status, turn.reported, turn.now_ms)
        at_workers = turn.status.workers
        if not turn.has_news:
            parts.places.workers.set_held(turn.key, at_workers)
            parts.metrics.note_status(turn.key, turn.status)
            return
        turn.item = parts.writer.write(turn.item, turn.status)
        turn.session.written_ms = turn.now_ms
        parts.places.workers.set_held(turn.key, at_workers)
        turn.reported = turn.status
        self._count_ends(turn)
        parts.budgets.spending.note(turn.key, turn.status.spent)
        parts.metrics.note_status(turn.key, turn.status)

    def _next_look_s(
        self,
        turn: Reconciliation,
        settled: Settlement,
        observed: Observed,
        actions: tuple[PlannedAction, ...],
    ) -> float:
        """When to look again if no watch event comes."""
        sources = observed.sources.values()
        if observed.problem is not None or any(seen.problem for seen in sources):
            return self._looks.after_problem(turn.session)
        found = any(item.lag_files for item in turn.status.ingest.values())
        if observed.sources:
            self._parts.pacing.note_look(turn.key, found_files=found)
        waits = [action for action in actions if isinstance(action, Wait)]
        if turn.look_at_ms is not None:
            waits.append(Wait("", WaitKind.RETRY, turn.look_at_ms, "a warm worker may be free"))
        return self._looks.after_plan(turn.key, turn.session, waits, settled, turn.now_ms)


def _chosen(actions: tuple[PlannedAction, ...], settled: Settlement) -> Start | None:
    """What to start: the operation that was recorded but not started if it is still in the plan,
    otherwise the first. Its attempt is one that has no Job yet."""
    starts = [action for action in actions if isinstance(action, Start)]
    if not starts:
        return None
    pending = settled.pending
    for start in starts:
        if pending is not None and start.operation.id == pending.id:
            return replace(start, attempt=pending.attempt)
    first = starts[0]
    used = settled.attempts.get(first.operation.id, 0)
    return replace(first, attempt=max(first.attempt, used + 1))


def _is_noted(status: LakeTableStatus, entry: OperationStatus) -> bool:
    return any(item.id == entry.id for item in status.operations)
