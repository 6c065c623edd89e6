"""Faults in the operator: planning, election, settling what became of Jobs."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_OPERATOR = "operator/tideline_operator"
_TESTS = "operator/tests"
_PLANNER = f"{_OPERATOR}/decide/planner.py"
_DIFFERENCE = "operator/tideline_operator/decide/table_difference.py"
_PLANNER_TESTS = (f"{_TESTS}/decide/test_planner.py",)
_CONCURRENCY_TESTS = (f"{_TESTS}/decide/test_concurrency.py",)
_SETTLEMENT = f"{_OPERATOR}/controller/settlement.py"
_SETTLEMENT_TESTS = (f"{_TESTS}/controller/test_settlement.py",)
_WARM = f"{_OPERATOR}/controller/warm_workers.py"
_WARM_TESTS = (f"{_TESTS}/controller/test_warm_worker_choices.py",)
_BUDGETS = f"{_OPERATOR}/controller/budgets.py"
_BUDGET_TESTS = (f"{_TESTS}/controller/test_budgets.py",)
_PLACES_TESTS = (f"{_TESTS}/controller/test_places_in_turns.py",)
_WRITER_STATE = f"{_OPERATOR}/controller/writer_state.py"
_WRITER_STATE_TESTS = (f"{_TESTS}/controller/test_writer_state.py",)
_ELECTION = f"{_OPERATOR}/controller/election.py"
_ELECTION_TESTS = (f"{_TESTS}/controller/test_controller_stale_leader.py", "-m", "not api_server")
_STATUS_TESTS = (f"{_TESTS}/controller/test_written_statuses.py", "-m", "not api_server")

OPERATOR_FAULTS = (
    Fault(
        "a status that another has written wakes no table while a turn writes",
        f"{_OPERATOR}/controller/status_writer.py",
        'is_written = content is not None and content == after.get("status")',
        "is_written = content is not None",
        _STATUS_TESTS,
    ),
    Fault(
        "that the last records of a stream were taken in is not written for seconds",
        f"{_OPERATOR}/controller/reconciliation.py",
        "lag_records=min(1, item.lag_records),",
        "lag_records=0,",
        _STATUS_TESTS,
    ),
    Fault(
        "the result that a worker shows wakes nobody",
        _WARM,
        "return report is not None and report.result is not None and report != report_of(before)",
        "return False",
        _WARM_TESTS,
    ),
    Fault(
        "two operations of a table run at once",
        f"{_OPERATOR}/decide/concurrency.py",
        "return may_begin(_work(operation.kind, operation.subject, table, observed), under_way)",
        "return True",
        _CONCURRENCY_TESTS,
    ),
    Fault(
        "an ingest begins on top of a dead writer",
        _PLANNER,
        "        if _has_start(first) or self._has_dead_writer() or self._has_ending_writer():\n",
        "        if _has_start(first):\n",
        _PLANNER_TESTS,
    ),
    Fault(
        "a cron trigger counts from now",
        f"{_OPERATOR}/decide/triggers.py",
        "    return now_ms if since is None else since.ms\n",
        "    return now_ms\n",
        _PLANNER_TESTS,
    ),
    Fault(
        "a fenced table is written",
        _PLANNER,
        "        if self._spec.fenced:\n",
        "        if self._spec.suspend:\n",
        _PLANNER_TESTS,
    ),
    Fault(
        "a table of another shape is taken over",
        _DIFFERENCE,
        "        if wanted != found:\n",
        "        if not wanted and found:\n",
        _PLANNER_TESTS,
    ),
    Fault(
        "a found table is worked on although it is refused",
        f"{_OPERATOR}/observe/observation.py",
        "        if adoption.is_refused:\n",
        "        if adoption.is_refused and not adoption.message:\n",
        (f"{_TESTS}/decide/test_adoption.py",),
    ),
    Fault(
        "a failed operation is tried again at once",
        _PLANNER,
        "        if retry_at is not None and retry_at.ms > self._now_ms:\n",
        "        if retry_at is not None and retry_at.ms > self._now_ms * 2:\n",
        _PLANNER_TESTS,
    ),
    Fault(
        "a lease that another holds is taken",
        _ELECTION,
        '            if holder not in ("", self._identity) and not self._is_dropped(lease):\n',
        "            if False:\n",
        _ELECTION_TESTS,
    ),
    Fault(
        "a leader continues writing after its term",
        _ELECTION,
        "            return self._ends_s is not None and "
        "self._clock.monotonic_s() < self._ends_s\n",
        "            return self._ends_s is not None\n",
        _ELECTION_TESTS,
    ),
    Fault(
        "a renewal that was confirmed too late revives a term",
        _ELECTION,
        "            if self._ends_s is None or self._clock.monotonic_s() >= self._ends_s:\n",
        "            if self._ends_s is None:\n",
        _ELECTION_TESTS,
    ),
    Fault(
        "a term counts from the answer to its renewal",
        _ELECTION,
        "            if is_renewed:\n                self._ends_s = sent_s +",
        "            if is_renewed:\n                self._ends_s = self._clock.monotonic_s() +",
        _ELECTION_TESTS,
    ),
    Fault(
        "a Job whose pod still runs counts as lost",
        f"{_OPERATOR}/launch/job_outcome.py",
        "    if failure is not None and (driver is None or counts_as_ended(driver, now_ms)):\n",
        "    if failure is not None:\n",
        (f"{_TESTS}/launch/test_job_outcome.py",),
    ),
    Fault(
        "a driver on a lost node is waited for without an end",
        f"{_OPERATOR}/launch/job_outcome.py",
        "    return has_ended(pod) or (lost_at_ms is not None and now_ms >= lost_at_ms)\n",
        "    return has_ended(pod) or (lost_at_ms is not None and now_ms < 0)\n",
        (f"{_TESTS}/launch/test_job_outcome.py",),
    ),
    Fault(
        "the pod of an earlier Job of that name answers for it",
        f"{_OPERATOR}/launch/job_outcome.py",
        '        return any(owner.get("uid") == uid for owner in owners)\n',
        "        return bool(owners)\n",
        (f"{_TESTS}/launch/test_job_outcome.py",),
    ),
    Fault(
        "a Job that no cache knows yet counts as missing",
        _SETTLEMENT,
        "                known = jobs.get(job_id) or self._api.get(JOBS, job_id, namespace)\n",
        "                known = jobs.get(job_id)\n",
        _SETTLEMENT_TESTS,
    ),
    Fault(
        "an operation whose Job was deleted is lost while its pod runs",
        _SETTLEMENT,
        "            elif pods := self._pods_of(key, entry.id, now_ms):\n",
        "            elif pods := []:\n",
        _SETTLEMENT_TESTS,
    ),
    Fault(
        "last words that come late are not heard",
        _SETTLEMENT,
        "        if isinstance(outcome, Lost):\n            selector",
        "        if False:\n            selector",
        _SETTLEMENT_TESTS,
    ),
    Fault(
        "a Job that the status forgot is not seen",
        _SETTLEMENT,
        "        if is_known or not operation_id or kind not in _KINDS:\n",
        "        if is_known or operation_id or kind not in _KINDS:\n",
        _SETTLEMENT_TESTS,
    ),
    Fault(
        "a worker that has another operation of the table gets one more",
        _WARM,
        "            is_others = worker.holder != table or key[1] in busy\n",
        "            is_others = worker.holder != table\n",
        _WARM_TESTS,
    ),
    Fault(
        "a worker that has another operation of the table is chosen as an idle one",
        f"{_OPERATOR}/controller/worker_places.py",
        "        chosen = self.workers.choose(key, plan, warm, busy=busy, gives_way=gives_way)\n",
        "        chosen = self.workers.choose(key, plan, warm, gives_way=gives_way)\n",
        _PLACES_TESTS,
    ),
    Fault(
        "a worker that another operation of the table waits for is forgotten",
        _WARM,
        "worker.pod is None and key[1] not in busy\n",
        "worker.pod is None\n",
        _WARM_TESTS,
    ),
    Fault(
        "a table whose operation has ended keeps its worker, whatever waits",
        _WARM,
        "            ahead = self._ahead_of(table, plan.kind, now_ms)\n",
        "            ahead = 0\n",
        _WARM_TESTS,
    ),
    Fault(
        "an idle worker is kept for a table that does not come",
        _WARM,
        "            and (other.woken_ms is None or now_ms - other.woken_ms < _TURN_MS)\n",
        "",
        _WARM_TESTS,
    ),
    Fault(
        "a worker's report of another operation is adopted",
        _SETTLEMENT,
        "        if counts_as_ended(pod, now_ms) or report.operation_id != operation_id:\n",
        "        if counts_as_ended(pod, now_ms):\n",
        _SETTLEMENT_TESTS,
    ),
    Fault(
        "an operation for which there is no room keeps its place",
        _SETTLEMENT,
        "not (outcome.lacks_room and waited_ms < _ROOM_PATIENCE_MS)",
        "not outcome.lacks_room",
        _SETTLEMENT_TESTS,
    ),
    Fault(
        "an operation for whose worker there is no room keeps its place",
        _SETTLEMENT,
        "waiting.lacks_room and waited_ms < _ROOM_PATIENCE_MS\n",
        "waiting.lacks_room\n",
        _SETTLEMENT_TESTS,
    ),
    Fault(
        "an operation that is under way stays in line",
        _BUDGETS,
        "            self._leave_line(key, operation)\n"
        "            self._places.setdefault(key, {})[operation] = memory_bytes\n",
        "            self._places.setdefault(key, {})[operation] = memory_bytes\n",
        _BUDGET_TESTS,
    ),
    Fault(
        "a table that wants nothing any more stays in line",
        f"{_OPERATOR}/controller/reconcile.py",
        "            parts.budgets.leave_line(turn.key)\n"
        "            parts.places.workers.stop_waiting(turn.key)\n",
        "            parts.places.workers.stop_waiting(turn.key)\n",
        _PLACES_TESTS,
    ),
    Fault(
        "an operation that cannot start stays in line",
        _BUDGETS,
        "            self._leave_line(key, operation)\n            self._aside",
        "            self._aside",
        _BUDGET_TESTS,
    ),
    Fault(
        "a writer is gone although the API server has a pod of it",
        _WRITER_STATE,
        "        return all(has_ended(pod) for pod in pods)\n",
        "        return True\n",
        _WRITER_STATE_TESTS,
    ),
    Fault(
        "a writer is gone although its Job may start another pod",
        _WRITER_STATE,
        "        if any(may_start_pods(job) for job in jobs):\n",
        "        if not jobs:\n",
        _WRITER_STATE_TESTS,
    ),
    Fault(
        "a commit in doubt counts before it is complete",
        f"{_OPERATOR}/report/unknown_outcome.py",
        "    if found is None or not found.is_completed:\n",
        "    if found is None:\n",
        (f"{_TESTS}/report/test_table_status.py",),
    ),
    Fault(
        "what a status leaves empty is applied as null over what was there",
        f"{_OPERATOR}/resources/parsing.py",
        "        is_written = member != default or rule_of(field).always_written\n",
        "        is_written = member != default\n",
        (f"{_TESTS}/resources/test_resource_parsing.py",),
    ),
    Fault(
        "a failure outlives what the spec declares",
        f"{_OPERATOR}/report/failures.py",
        "    return tuple(filter(stands, failures))\n",
        "    return failures\n",
        (f"{_TESTS}/report/test_table_status.py",),
    ),
    Fault(
        "a status grows past what the API server takes",
        f"{_OPERATOR}/resources/bounds.py",
        "        kept = member if rule.items_max is None else member[-rule.items_max :]\n",
        "        kept = member\n",
        (f"{_TESTS}/resources/test_bounds.py",),
    ),
)
