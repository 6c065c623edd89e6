"""Two controllers and one Lease: one works, and when it ends the other takes over."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tideline.clock import SystemClock
from tideline.ingest.location import Location
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.minio_server import MinioServer
from tideline.testing.patience import PATIENCE_S
from tideline_operator.api_objects import LAKE_STORES, LEASES, SECRETS, Manifest
from tideline_operator.controller.election import Election
from tideline_operator.controller.main import LEASE_NAME
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.status_writer import StaleStatusError, StatusWriter
from tideline_operator.resources.status import LakeTableStatus
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.controller_process import ControllerInProcess
from tideline_operator.testing.simulated_cluster import SimulatedCluster

pytestmark = pytest.mark.api_server


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def contender(server: ApiServer, namespace: str, name: str, lease_s: int = 2) -> Election:
    return Election(
        server.api(),
        namespace=namespace,
        name="lease",
        identity=name,
        clock=SystemClock(),
        lease_s=lease_s,
        renew_deadline_s=1.0,
        retry_s=0.2,
    )


def test_one_of_two_leads_and_a_clean_end_hands_over_at_once(
    api_server: ApiServer, namespace: str
) -> None:
    first, second = (contender(api_server, namespace, name, lease_s=600) for name in "ab")
    assert first.wait_to_lead()
    assert not second._attempt()
    assert first._attempt()
    first.release()
    assert second.wait_to_lead()
    lease = api_server.api().get(LEASES, "lease", namespace)
    assert lease is not None and lease["spec"]["holderIdentity"] == "b"
    assert lease["spec"]["leaseTransitions"] == 1


def test_a_lease_that_is_not_renewed_is_taken_and_its_holder_notices(
    api_server: ApiServer, namespace: str
) -> None:
    first, second = (contender(api_server, namespace, name) for name in "ab")
    assert first.wait_to_lead()
    assert second.wait_to_lead()
    lost: list[str] = []
    first.keep_leading(lost.append)
    # Its own clock ended the term before the second one could take the lease.
    assert lost == ["could not renew the lease"]
    assert not first.is_leader


def test_a_status_is_never_written_over_a_newer_one(case: ControllerCase) -> None:
    read = case.declare()
    writer = StatusWriter(case.api, ObjectCache())
    newer = writer.write(read, LakeTableStatus(observed_generation=1))
    assert newer["status"]["observedGeneration"] == 1
    with pytest.raises(StaleStatusError):
        writer.write(read, LakeTableStatus(observed_generation=2))
    assert case.status()["observedGeneration"] == 1
    assert writer.write(newer, LakeTableStatus(observed_generation=1)) is newer


def holder(case: ControllerCase) -> str:
    lease = case.api.get(LEASES, LEASE_NAME, case.namespace)
    return "" if lease is None else str(lease["spec"].get("holderIdentity", ""))


@pytest.fixture
def processes(case: ControllerCase, api_server: ApiServer) -> Iterator[list[ControllerInProcess]]:
    kubeconfig = api_server.kubeconfig
    started = [
        ControllerInProcess(kubeconfig, case.namespace, case.folder, number) for number in range(2)
    ]
    yield started
    for item in started:
        item.end()


def on_minio(case: ControllerCase, server: MinioServer) -> SimulatedCluster:
    """A LakeStore with its Secret, and a cluster whose engine has the same credentials."""
    secret: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys"},
        "stringData": dict(server.environment()),
    }
    case.api.create(SECRETS, secret, case.namespace)
    store: Manifest = {
        "apiVersion": LAKE_STORES.api_version,
        "kind": LAKE_STORES.kind,
        "metadata": {"name": "minio"},
        "spec": {"endpoint": server.endpoint, "credentials": {"secretName": "keys"}},
    }
    case.api.create(LAKE_STORES, store, case.namespace)
    connection = StoreConnection(S3Credentials(server.access_key, server.secret_key))

    def open_store(place: Location) -> ObjectStore:
        return StoreLocation.of(place.uri, dict(place.options)).open(connection)

    return SimulatedCluster(case.api, case.namespace, open_store)


@pytest.mark.slow
@pytest.mark.minio
def test_when_the_leader_is_killed_the_other_continues_its_work(
    case: ControllerCase, processes: list[ControllerInProcess], minio_server: MinioServer
) -> None:
    case.until(lambda: all(item.is_ready() for item in processes), "both are ready", 60.0)
    bucket = minio_server.create_bucket()
    case.cluster = on_minio(case, minio_server)
    source = {"format": "parquet", "path": f"s3://{bucket}/landing/"}
    ingest = [{"name": "landing", "source": source, "trigger": {"every": "2s"}}]
    case.declare(storeRef="minio", location=f"s3://{bucket}/people", ingest=ingest)
    job = case.until_job("create")
    case.until(lambda: case.operations()[0]["phase"] == "Running", "the Job was seen")
    # The Service may choose either of them.
    for item in processes:
        assert "1 LakeTable of this cluster" in item.page("/")
        assert "Operations" in item.page(f"/tables/{case.namespace}/people")
        assert item.page("/tables/nowhere/none") == ""
    leader = int(holder(case).removeprefix("controller-")[0])
    processes[leader].process.send_signal(signal.SIGKILL)
    case.cluster.carry_out(job)
    case.until(lambda: holder(case).startswith(f"controller-{1 - leader}"), "a new leader", 60.0)
    case.until_ready()
    assert [item["metadata"]["name"] for item in case.cluster.all_jobs()] == [
        job["metadata"]["name"]
    ]
    minio_server.client().fput_object(bucket, "landing/a.parquet", __file__)
    case.cluster.carry_out(case.until_job("ingest"))
    case.until(lambda: case.operations()[-1].get("instant"), "the commit is in the status")
    assert minio_server.secret_key not in "".join(item.log.read_text() for item in processes)


@pytest.mark.slow
def test_sigterm_hands_the_lease_over_and_losing_it_ends_the_process(
    case: ControllerCase, processes: list[ControllerInProcess]
) -> None:
    case.until(lambda: all(item.is_ready() for item in processes), "both are ready", 60.0)
    case.until(lambda: holder(case), "there is a leader")
    leader = int(holder(case).removeprefix("controller-")[0])
    processes[leader].process.send_signal(signal.SIGTERM)
    case.until(lambda: holder(case).startswith(f"controller-{1 - leader}"), "handed over", 10.0)
    assert processes[leader].process.wait(PATIENCE_S) == 0
    change = {"spec": {"holderIdentity": "another process"}}
    case.api.patch(LEASES, LEASE_NAME, change, case.namespace)
    assert processes[1 - leader].process.wait(PATIENCE_S) == 1
    assert "another process took the lease" in processes[1 - leader].log.read_text()
