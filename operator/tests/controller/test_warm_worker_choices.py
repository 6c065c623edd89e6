"""Who has which worker: choices, ends, and who is next."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.ingest.operation.assignment import REPORT_ANNOTATION, WorkerReport
from tideline.ingest.operation.result import OperationResult, Outcome
from tideline.testing.fake_clock import FakeClock
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.warm_workers import Chosen, WarmWorkers
from tideline_operator.decide.worker_assignment import AwaitWorker, OwnJob
from tideline_operator.launch.job_outcome import JOB_NAME_LABEL
from tideline_operator.launch.worker_job import MEMORY_ANNOTATION, WORKER_LABEL
from tideline_operator.launch.worker_launcher import WorkerPlan
from tideline_operator.resources.warm import Warm

PLAN = WorkerPlan({}, "a", 1_000)
ONE, TWO, THREE = ("lake", "one"), ("lake", "two"), ("lake", "three")


def job(name: str, kind: str = "a", namespace: str = "lake", **metadata: Any) -> Manifest:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {WORKER_LABEL: kind},
            "annotations": {MEMORY_ANNOTATION: "1000"},
            **metadata,
        }
    }


def pod(of: str, phase: str = "Running") -> Manifest:
    labels = {WORKER_LABEL: "a", JOB_NAME_LABEL: of}
    metadata = {"name": f"{of}-pod", "namespace": "lake", "labels": labels, "uid": of}
    return {"metadata": metadata, "status": {"phase": phase}}


def started(workers: WarmWorkers, table: tuple[str, str], warm: Warm | None = None) -> str:
    chosen = workers.choose(table, PLAN, warm or Warm())
    assert isinstance(chosen, Chosen)
    if chosen.is_new:
        workers.note_job(None, job(chosen.name))
    return chosen.name


def test_a_worker_that_one_table_chose_is_not_chosen_by_another() -> None:
    workers = WarmWorkers(FakeClock())
    first, second = started(workers, ONE), started(workers, TWO)
    assert first != second


def test_once_the_status_names_it_no_more_another_table_gets_it() -> None:
    workers = WarmWorkers(FakeClock())
    first = started(workers, ONE)
    workers.set_held(ONE, [first])
    workers.set_held(ONE, [])
    assert started(workers, TWO) == first


def test_a_turn_that_is_repeated_gets_the_same_worker() -> None:
    workers = WarmWorkers(FakeClock())
    first = started(workers, ONE)
    assert started(workers, ONE) == first


def test_who_waits_is_next_when_a_worker_is_free() -> None:
    clock, warm = FakeClock(), Warm(max_workers=1)
    workers = WarmWorkers(clock)
    first = started(workers, ONE, warm)
    for table in (TWO, THREE):
        assert isinstance(workers.choose(table, PLAN, warm), AwaitWorker)
        clock.advance(1)
    assert workers.next_in_line() == ()
    workers.set_held(ONE, [])
    assert workers.next_in_line() == (TWO,)
    assert workers.next_in_line() == ()
    assert started(workers, TWO, warm) == first
    assert workers.next_in_line() == ()
    assert workers.waiting == 1


def test_a_table_whose_operation_has_ended_waits_behind_those_that_waited() -> None:
    clock, warm = FakeClock(), Warm(max_workers=1)
    workers = WarmWorkers(clock)
    first = started(workers, ONE, warm)
    assert isinstance(workers.choose(TWO, PLAN, warm), AwaitWorker)
    clock.advance(1)
    # The turn in which its operation has ended: the status still names the worker.
    again = workers.choose(ONE, PLAN, warm)
    assert isinstance(again, AwaitWorker)
    assert again.message == "it is in line for 1 warm worker"
    workers.set_held(ONE, [])
    assert workers.next_in_line() == (TWO,)
    assert started(workers, TWO, warm) == first
    workers.set_held(TWO, [first])
    assert isinstance(workers.choose(TWO, PLAN, warm), AwaitWorker)
    workers.set_held(TWO, [])
    assert workers.next_in_line() == (ONE,)
    assert started(workers, ONE, warm) == first


def test_a_worker_is_not_kept_for_long_for_a_table_that_does_not_come() -> None:
    clock, warm = FakeClock(), Warm(max_workers=1)
    workers = WarmWorkers(clock)
    first = started(workers, ONE, warm)
    assert isinstance(workers.choose(TWO, PLAN, warm), AwaitWorker)
    workers.set_held(ONE, [])
    assert workers.next_in_line() == (TWO,)
    clock.advance(2)
    assert isinstance(workers.choose(ONE, PLAN, warm), AwaitWorker)
    clock.advance(1)
    assert started(workers, ONE, warm) == first


def test_a_service_that_can_wait_lets_tables_in_line_go_first_for_a_while() -> None:
    clock, warm = FakeClock(), Warm(max_workers=1)
    workers = WarmWorkers(clock)
    first = started(workers, ONE, warm)
    assert isinstance(workers.choose(TWO, PLAN, warm), AwaitWorker)
    # The ingest of the first has ended, and its cleaning is due: it takes no place in line.
    service = workers.choose(ONE, PLAN, warm, gives_way=True)
    assert service == AwaitWorker(
        "1 table in line for a warm worker first", clock.now_ms() + 20_000
    )
    assert workers.waiting == 1
    workers.set_held(ONE, [])
    assert started(workers, TWO, warm) == first
    # Nobody waits any more: the worker is busy, and the service is in line as all are.
    assert workers.choose(ONE, PLAN, warm, gives_way=True) != service
    assert workers.waiting == 1
    workers.stop_waiting(ONE)

    # Where others always wait it is in line after a while, behind those that are there.
    assert isinstance(workers.choose(THREE, PLAN, warm), AwaitWorker)
    clock.advance(10)
    assert isinstance(workers.choose(ONE, PLAN, warm, gives_way=True), AwaitWorker)
    assert workers.waiting == 1
    clock.advance(20)
    workers.set_held(TWO, [])
    assert workers.next_in_line() == (THREE,)
    assert isinstance(workers.choose(ONE, PLAN, warm, gives_way=True), AwaitWorker)
    assert workers.waiting == 2
    assert started(workers, THREE, warm) == first
    workers.set_held(THREE, [])
    assert workers.next_in_line() == (ONE,)
    assert isinstance(workers.choose(ONE, PLAN, warm, gives_way=True), Chosen)


def test_what_waits_for_workers_of_another_kind_is_not_waited_for() -> None:
    workers, warm = WarmWorkers(FakeClock()), Warm(max_workers=2)
    first = started(workers, ONE, warm)
    other = WorkerPlan({}, "b", 1_000)
    held = workers.choose(THREE, other, warm)
    assert isinstance(held, Chosen)
    workers.note_job(None, job(held.name, "b"))
    assert isinstance(workers.choose(TWO, other, warm), AwaitWorker)
    workers.set_held(ONE, [])
    assert started(workers, ONE, warm) == first


def test_a_workers_time_is_shared_by_the_tables_that_had_one_lately() -> None:
    clock, warm = FakeClock(), Warm(max_workers=1)
    workers = WarmWorkers(clock)
    first = started(workers, ONE, warm)
    assert workers.share("lake") == 1.0
    assert isinstance(workers.choose(TWO, PLAN, warm), AwaitWorker)
    assert workers.share("lake") == 0.0
    workers.set_held(ONE, [])
    assert started(workers, TWO, warm) == first
    assert workers.share("lake") == 0.5
    assert workers.share("other") == 1.0
    workers.forget(ONE)
    assert workers.share("lake") == 1.0
    started(workers, THREE, Warm(max_workers=2))
    assert workers.share("lake") == 1.0
    clock.advance(61)
    started(workers, TWO, warm)
    assert workers.share("lake") == 1.0


def test_patience_ends_and_the_wait_with_it() -> None:
    clock, warm = FakeClock(), Warm(max_workers=1)
    workers = WarmWorkers(clock)
    started(workers, ONE, warm)
    assert isinstance(workers.choose(TWO, PLAN, warm), AwaitWorker)
    clock.advance(21)
    assert isinstance(workers.choose(TWO, PLAN, warm), OwnJob)
    assert workers.waiting == 0


def test_a_worker_whose_pod_ended_is_no_worker() -> None:
    workers = WarmWorkers(FakeClock())
    first = started(workers, ONE)
    workers.set_held(ONE, [])
    workers.note_pod(None, pod(first, "Succeeded"))
    assert started(workers, ONE, Warm(max_workers=1)) != first


def test_a_worker_that_is_being_deleted_counts_until_its_pod_has_ended() -> None:
    workers, warm = WarmWorkers(FakeClock()), Warm(max_workers=1)
    first = started(workers, ONE)
    workers.set_held(ONE, [])
    workers.note_pod(None, pod(first))
    workers.note_job(None, job(first, deletionTimestamp="2026-01-01T00:00:00Z"))
    assert isinstance(workers.choose(ONE, PLAN, warm), OwnJob)
    workers.note_pod(None, pod(first, "Failed"))
    assert isinstance(workers.choose(ONE, PLAN, warm), Chosen)


def test_a_worker_on_a_lost_node_takes_no_place_for_ever() -> None:
    clock, warm = FakeClock(), Warm(max_workers=1)
    workers = WarmWorkers(clock)
    first = started(workers, ONE)
    workers.set_held(ONE, [])
    stopped = pod(first)
    moment = datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
    stopped["metadata"]["deletionTimestamp"] = moment.isoformat()
    workers.note_pod(None, stopped)
    clock.advance(DEFAULT_LIMITS.silent_s_max - 1)
    assert isinstance(workers.choose(ONE, PLAN, warm), OwnJob)
    assert workers.count(is_busy=False) == 1
    clock.advance(1)
    assert workers.count(is_busy=False) == 0
    assert isinstance(workers.choose(ONE, PLAN, warm), Chosen)


def test_changes_of_its_pod_wake_the_table_that_has_it() -> None:
    workers = WarmWorkers(FakeClock())
    first = started(workers, ONE)
    assert workers.note_pod(None, pod(first)) == ONE
    assert workers.pod("lake", first) == pod(first)
    workers.set_held(ONE, [])
    assert workers.note_pod(None, pod(first)) is None


def showing(item: Manifest, report: WorkerReport) -> Manifest:
    return {
        **item,
        "metadata": item["metadata"] | {"annotations": {REPORT_ANNOTATION: report.to_json()}},
    }


def test_only_the_result_that_a_worker_shows_wakes_its_table() -> None:
    workers = WarmWorkers(FakeClock())
    name = started(workers, ONE)
    idle = pod(name)
    takes = showing(idle, WorkerReport("people-ingest-1", 1))
    result = OperationResult("people-ingest-1", Outcome.SUCCEEDED)
    ended = showing(idle, WorkerReport("people-ingest-1", 1, result))
    assert workers.note_pod(idle, takes) is None
    assert workers.note_pod(takes, ended) == ONE
    assert workers.note_pod(ended, ended) is None
    assert workers.note_pod(ended, showing(idle, WorkerReport("orders-ingest-1", 1))) is None
    assert workers.note_pod(takes, {**takes, "status": {"phase": "Failed"}}) == ONE
    stopping = {
        **takes,
        "metadata": takes["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    }
    assert workers.note_pod(takes, stopping) == ONE
    assert workers.pod("lake", name) == stopping


def test_the_next_table_has_a_worker_while_the_result_it_shows_is_settled() -> None:
    clock, warm = FakeClock(), Warm(max_workers=1)
    workers = WarmWorkers(clock)
    first = started(workers, ONE, warm)
    workers.set_held(ONE, [first])
    takes = showing(pod(first), WorkerReport("one-ingest-1", 1))
    result = OperationResult("one-ingest-1", Outcome.SUCCEEDED)
    ended = showing(pod(first), WorkerReport("one-ingest-1", 1, result))
    workers.note_pod(pod(first), takes)
    for table in (TWO, THREE):
        assert isinstance(workers.choose(table, PLAN, warm), AwaitWorker)
        clock.advance(1)
    assert workers.next_in_line() == ()
    workers.note_pod(takes, ended)
    assert workers.next_in_line() == (TWO,)
    assert started(workers, TWO, warm) == first
    # The turns of the first table end later, and do not take it back.
    workers.set_held(ONE, [first])
    assert isinstance(workers.choose(THREE, PLAN, warm), AwaitWorker)
    workers.set_held(ONE, [])
    workers.note_pod(ended, {**ended, "status": {"phase": "Running", "started": True}})
    assert isinstance(workers.choose(THREE, PLAN, warm), AwaitWorker)
    workers.set_held(TWO, [first])
    assert workers.next_in_line() == ()
    workers.set_held(TWO, [])
    assert workers.next_in_line() == (THREE,)


def test_a_worker_whose_result_is_not_settled_is_left_alone_again() -> None:
    clock, warm = FakeClock(), Warm(max_workers=1)
    workers = WarmWorkers(clock)
    first = started(workers, ONE, warm)
    workers.set_held(ONE, [first])
    result = OperationResult("one-ingest-1", Outcome.SUCCEEDED)
    workers.note_pod(pod(first), showing(pod(first), WorkerReport("one-ingest-1", 1, result)))
    clock.advance(1.9)
    assert isinstance(workers.choose(TWO, PLAN, warm), Chosen)
    workers.set_held(TWO, [])
    workers.set_held(ONE, [first])
    assert isinstance(workers.choose(TWO, PLAN, warm), AwaitWorker)


def test_a_table_waits_for_a_worker_whose_job_is_being_created() -> None:
    workers, warm = WarmWorkers(FakeClock()), Warm(max_workers=1)
    assert isinstance(workers.choose(ONE, PLAN, warm), Chosen)
    assert isinstance(workers.choose(TWO, PLAN, warm), AwaitWorker)
    other = WorkerPlan({}, "b", 1_000)
    assert isinstance(workers.choose(THREE, other, warm), OwnJob)


def test_limits_are_of_a_namespace() -> None:
    workers, warm = WarmWorkers(FakeClock()), Warm(max_workers=1)
    started(workers, ONE, warm)
    assert isinstance(workers.choose(("other", "one"), PLAN, warm), Chosen)


def test_nothing_is_kept_of_workers_that_are_gone() -> None:
    workers = WarmWorkers(FakeClock())
    first = started(workers, ONE)
    workers.note_pod(None, pod(first))
    workers.forget(ONE)
    workers.note_pod(pod(first), None)
    workers.note_job(job(first), None)
    assert workers.job("lake", first) is None
    assert (workers.count(is_busy=True), workers.count(is_busy=False)) == (0, 0)


def test_other_jobs_and_pods_are_no_workers() -> None:
    workers = WarmWorkers(FakeClock())
    item = {"metadata": {"name": "people-ingest-1", "namespace": "lake", "labels": {}}}
    workers.note_job(None, item)
    assert workers.note_pod(None, item) is None
    assert workers.job("lake", "people-ingest-1") is None


def test_what_was_chosen_and_never_started_is_no_worker() -> None:
    workers, warm = WarmWorkers(FakeClock()), Warm(max_workers=1)
    first = workers.choose(ONE, PLAN, warm)
    second = workers.choose(ONE, PLAN, warm)
    assert isinstance(first, Chosen)
    assert isinstance(second, Chosen)
    assert first.name != second.name


def test_a_worker_that_has_another_operation_of_the_table_is_busy() -> None:
    workers = WarmWorkers(FakeClock())
    first = started(workers, ONE)
    workers.set_held(ONE, [first])
    second = workers.choose(ONE, PLAN, Warm(), busy={first})
    assert isinstance(second, Chosen)
    assert second.name != first


def test_a_worker_that_another_operation_of_the_table_waits_for_counts() -> None:
    """Its Job is not known yet."""
    workers, warm = WarmWorkers(FakeClock()), Warm(max_workers=1)
    first = workers.choose(ONE, PLAN, warm)
    assert isinstance(first, Chosen)
    assert isinstance(workers.choose(ONE, PLAN, warm, busy={first.name}), AwaitWorker)
