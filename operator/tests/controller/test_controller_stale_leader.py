"""A leader that cannot renew its Lease, or did not run for a while, stops writing in time."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.clock import Clock, SystemClock
from tideline.testing.fake_clock import FakeClock
from tideline.testing.patience import PATIENCE_S
from tideline_operator.api_objects import EVENTS, LEASES, LeadershipLostError, Manifest
from tideline_operator.controller import election as election_module
from tideline_operator.controller.election import Election
from tideline_operator.controller.event_recorder import EventRecorder, TableEvent
from tideline_operator.controller.main import LEASE_NAME
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.status_writer import StatusWriter
from tideline_operator.kube import JOBS, KubeApi
from tideline_operator.resources.status import LakeTableStatus
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_process import ControllerInProcess
from tideline_operator.testing.eventually import eventually
from tideline_operator.testing.hanging_proxy import HangingProxy
from tideline_operator.testing.scripted_api import ScriptedServer

LEASE_S = 3
DEADLINE_S = 1.5


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    yield server
    server.stop()


def contender(
    api: KubeApi, name: str, namespace: str = "n", clock: Clock | None = None
) -> Election:
    return Election(
        api,
        namespace=namespace,
        name="lease",
        identity=name,
        clock=clock or SystemClock(),
        lease_s=LEASE_S,
        renew_deadline_s=DEADLINE_S,
        retry_s=0.2,
    )


def leading(server: ScriptedServer, folder: Path, clock: FakeClock) -> tuple[KubeApi, Election]:
    api = server.api(folder)
    election = contender(api, "a", clock=clock)
    api.before_write = election.check_term
    lease = {"metadata": {"name": "lease", "resourceVersion": "1"}, "spec": {}}
    server.script = [(200, lease), (200, lease)]
    assert election.wait_to_lead()
    server.seen.clear()
    return api, election


def leads(server: ApiServer, namespace: str) -> bool:
    return server.api().get(LEASES, LEASE_NAME, namespace) is not None


def test_a_store_is_written_only_while_a_request_ends_before_another_may_lead(
    server: ScriptedServer, tmp_path: Path
) -> None:
    clock = FakeClock()
    api = server.api(tmp_path)
    election = Election(
        api,
        namespace="n",
        name="lease",
        identity="a",
        clock=clock,
        lease_s=15,
        renew_deadline_s=10.0,
        store_write_s=11.0,
    )
    lease = {"metadata": {"name": "lease", "resourceVersion": "1"}, "spec": {}}
    with pytest.raises(LeadershipLostError):
        election.check_store_write()
    server.script = [(200, lease), (200, lease)]
    assert election.wait_to_lead()
    clock.advance(3.9)
    election.check_store_write()
    clock.advance(0.2)
    with pytest.raises(LeadershipLostError, match="writes nothing to stores"):
        election.check_store_write()
    # For the API server the term is long enough.
    election.check_term()


def test_a_lease_that_another_renews_is_left_alone(server: ScriptedServer, tmp_path: Path) -> None:
    clock = FakeClock()
    election = contender(server.api(tmp_path), "a", clock=clock)
    for version in ("1", "2"):
        spec = {"holderIdentity": "b", "leaseDurationSeconds": LEASE_S, "renewTime": version}
        metadata = {"name": "lease", "resourceVersion": version}
        server.script = [(200, {"metadata": metadata, "spec": spec})]
        assert not election._attempt()
        clock.advance(LEASE_S - 1)
    assert len(server.seen) == 2
    assert not election.is_leader


def test_a_term_ends_well_before_the_lease_does() -> None:
    term_s = election_module.RENEW_DEADLINE_S
    assert term_s + 3 <= election_module.LEASE_S
    assert term_s >= election_module.RETRY_S * 3


def test_a_former_leader_makes_none_of_its_pending_writes(
    server: ScriptedServer, tmp_path: Path
) -> None:
    clock = FakeClock()
    api, election = leading(server, tmp_path, clock)
    clock.advance(DEADLINE_S - 0.1)
    server.script = [(201, {"metadata": {}})]
    api.create(JOBS, {"metadata": {"name": "j"}}, "n")
    assert len(server.seen) == 1
    # As after SIGSTOP, or on an overloaded machine: the process could not notice the time.
    clock.advance(0.1)
    table: Manifest = {
        "apiVersion": "v1",
        "kind": "T",
        "metadata": {"name": "t", "namespace": "n", "uid": "u"},
    }
    table["metadata"]["resourceVersion"] = "1"
    status = LakeTableStatus(observed_generation=7)
    for write in (
        lambda: api.create(JOBS, {"metadata": {"name": "j"}}, "n"),
        lambda: api.delete(JOBS, "j", "n"),
        lambda: api.patch(JOBS, "j", {}, "n"),
        lambda: StatusWriter(api, ObjectCache()).write(table, status),
    ):
        with pytest.raises(LeadershipLostError, match="not the leader any more"):
            write()
    EventRecorder(api, "a", clock.now_ms).record(table, TableEvent("Late", "", "too late"))
    assert len(server.seen) == 1
    assert not election.is_leader


def test_a_renewal_that_is_confirmed_too_late_does_not_revive_a_term(
    server: ScriptedServer, tmp_path: Path
) -> None:
    clock = FakeClock()
    _, election = leading(server, tmp_path, clock)
    sent_s = clock.monotonic_s()
    clock.advance(DEADLINE_S)
    assert not election._prolong_term(sent_s, is_renewed=True)
    assert not election.is_leader


def test_a_term_counts_from_when_its_renewal_was_sent(
    server: ScriptedServer, tmp_path: Path
) -> None:
    clock = FakeClock()
    _, election = leading(server, tmp_path, clock)
    sent_s = clock.monotonic_s()
    clock.advance(1.0)
    assert election._prolong_term(sent_s, is_renewed=True)
    clock.advance(DEADLINE_S - 1.0)
    assert not election.is_leader


def test_the_wall_clock_decides_nothing(server: ScriptedServer, tmp_path: Path) -> None:
    clock = FakeClock()
    _, election = leading(server, tmp_path, clock)
    clock.step_wall(-3600)
    assert election.is_leader
    clock.advance(DEADLINE_S)
    clock.step_wall(-3600)
    assert not election.is_leader


@pytest.mark.api_server
def test_a_leader_whose_renewals_hang_steps_down_before_another_may_lead(
    api_server: ApiServer, namespace: str
) -> None:
    with HangingProxy(api_server.port) as proxy:
        api = api_server.api(port=proxy.port)
        first = contender(api, "first", namespace)
        api.before_write = first.check_term
        second = contender(api_server.api(), "second", namespace)
        assert first.wait_to_lead()
        lost: list[tuple[float, str]] = []
        watching = threading.Thread(
            target=first.keep_leading,
            args=(lambda reason: lost.append((time.monotonic(), reason)),),
        )
        watching.start()
        time.sleep(2 * DEADLINE_S)
        assert first.is_leader and not lost
        proxy.swallow_replies()
        hangs_since_s = time.monotonic()
        assert second.wait_to_lead()
        taken_s = time.monotonic()
        watching.join(PATIENCE_S)
    assert proxy.swallowed_bytes > 0
    assert [reason for _, reason in lost] == ["could not renew the lease"]
    assert lost[0][0] - hangs_since_s < DEADLINE_S + 1.0
    assert taken_s - lost[0][0] > 0.5
    with pytest.raises(LeadershipLostError):
        api.create(EVENTS, {"metadata": {"name": "late"}}, namespace)


@pytest.mark.api_server
@pytest.mark.slow
def test_a_controller_process_ends_before_its_lease_when_the_api_server_hangs(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    with HangingProxy(api_server.port) as proxy:
        kubeconfig = api_server.kubeconfig_of("admin", proxy.port)
        process = ControllerInProcess(kubeconfig, namespace, tmp_path)
        try:
            eventually(lambda: leads(api_server, namespace), "it leads")
            proxy.swallow_replies()
            hangs_since_s = time.monotonic()
            assert process.process.wait(PATIENCE_S) == 1
            assert time.monotonic() - hangs_since_s < election_module.LEASE_S - 2
        finally:
            process.end()
    assert "could not renew the lease" in process.log.read_text()
    lease = api_server.api().get(LEASES, LEASE_NAME, namespace)
    assert lease is not None and lease["spec"]["holderIdentity"].startswith("controller-0")


@pytest.mark.api_server
@pytest.mark.slow
def test_a_stopped_process_that_goes_on_ends_at_once(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    process = ControllerInProcess(api_server.kubeconfig, namespace, tmp_path)
    try:
        eventually(lambda: leads(api_server, namespace), "it leads")
        os.kill(process.process.pid, signal.SIGSTOP)
        time.sleep(election_module.RENEW_DEADLINE_S + 0.5)
        os.kill(process.process.pid, signal.SIGCONT)
        assert process.process.wait(PATIENCE_S) == 1
    finally:
        process.end()
