"""Faults in the operator: planning, election, settling what became of Jobs."""

from __future__ import annotations

from tideline.testing.mutants.fault import Fault

_OPERATOR = "operator/tideline_operator"
_TESTS = "operator/tests"
_PLANNER = f"{_OPERATOR}/planner.py"
_PLANNER_TESTS = (f"{_TESTS}/test_planner.py",)
_ELECTION_TESTS = (f"{_TESTS}/test_controller_election.py", "-m", "not api_server")

OPERATOR_FAULTS = (
    Fault(
        "two operations of a table run at once",
        _PLANNER,
        "        if self._observed.running:\n            return []\n",
        "",
        _PLANNER_TESTS,
    ),
    Fault(
        "an ingest begins on top of a dead writer",
        _PLANNER,
        "        if _has_start(first) or self._has_ending_writer():\n            return first\n",
        "",
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
        _PLANNER,
        "        if wanted != found:\n",
        "        if not wanted and found:\n",
        _PLANNER_TESTS,
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
        f"{_OPERATOR}/controller/election.py",
        '            if holder not in ("", self._identity) and not self._is_dropped(lease):\n',
        "            if False:\n",
        _ELECTION_TESTS,
    ),
    Fault(
        "a Job whose pods still run counts as ended",
        f"{_OPERATOR}/controller/settlement.py",
        "            elif self._has_pods(key, entry.id):\n",
        "            elif not key:\n",
        (f"{_TESTS}/test_controller_crashes.py", f"{_TESTS}/test_controller_reconciles.py"),
    ),
    Fault(
        "a Job that waits for ever is never given up",
        f"{_OPERATOR}/controller/settlement.py",
        "        if now_ms < late_at_ms:\n",
        "        if late_at_ms:\n",
        (f"{_TESTS}/test_controller_start_deadline.py",),
    ),
    Fault(
        "a status grows past what the API server takes",
        f"{_OPERATOR}/resources/bounds.py",
        "        kept = member if rule.items_max is None else member[-rule.items_max :]\n",
        "        kept = member\n",
        (f"{_TESTS}/test_bounds.py",),
    ),
)
