"""Forty endpoints that never answer beside a healthy one: its tables notice nothing."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from tideline.ingest.location import Location
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.minio_server import MinioServer
from tideline_operator.api_objects import LAKE_STORES, SECRETS, Manifest
from tideline_operator.controller.budgets import Limits
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.dead_endpoints import DeadEndpoints
from tideline_operator.testing.hanging_proxy import HangingProxy
from tideline_operator.testing.simulated_cluster import CarryingOut, SimulatedCluster

pytestmark = [pytest.mark.api_server, pytest.mark.minio]

DEAD = 40
SOON_S = 20.0
"""On a quiet machine 5 s; without breakers it is minutes."""


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


@pytest.fixture
def dead() -> Iterator[DeadEndpoints]:
    with DeadEndpoints(DEAD) as dead:
        yield dead


def put_store(case: ControllerCase, name: str, endpoint: str) -> None:
    store: Manifest = {
        "apiVersion": LAKE_STORES.api_version,
        "kind": LAKE_STORES.kind,
        "metadata": {"name": name, "namespace": case.namespace},
        "spec": {"endpoint": endpoint, "credentials": {"secretName": "keys"}},
    }
    case.api.create(LAKE_STORES, store, case.namespace)


def put_secret(case: ControllerCase, server: MinioServer) -> None:
    pair = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in pair.items()}
    metadata = {"name": "keys", "namespace": case.namespace}
    secret: Manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
    case.api.create(SECRETS, secret, case.namespace)


def declare(case: ControllerCase, name: str, bucket: str, store: str) -> None:
    source = {"format": "parquet", "path": f"s3://{bucket}/{name}-landing/"}
    ingest = [{"name": "landing", "source": source, "trigger": {"every": "1s"}}]
    case.declare(name, storeRef=store, location=f"s3://{bucket}/{name}", ingest=ingest)


def on_minio(case: ControllerCase, server: MinioServer) -> SimulatedCluster:
    connection = StoreConnection(S3Credentials(server.access_key, server.secret_key))

    def open_store(place: Location) -> ObjectStore:
        return StoreLocation.of(place.uri, dict(place.options)).open(connection)

    return SimulatedCluster(case.api, case.namespace, open_store)


def reason(case: ControllerCase, name: str) -> str:
    return str(case.condition("Ready", name).get("reason"))


def is_current(case: ControllerCase, name: str) -> bool:
    return case.condition("Ready", name).get("status") == "True"


def wait_for_ingest(case: ControllerCase, server: MinioServer, bucket: str, number: int) -> float:
    """Land a file; seconds until its ingest has a Job."""
    before = tuple(item["metadata"]["name"] for item in case.cluster.all_jobs())
    server.client().fput_object(bucket, f"people-landing/{number}.parquet", __file__)
    landed_s = time.monotonic()
    job = case.until_job("ingest", but=before)
    waited_s = time.monotonic() - landed_s
    case.cluster.carry_out(job)
    return waited_s


def test_operations_of_a_healthy_table_start_soon_beside_forty_dead_endpoints(
    case: ControllerCase,
    dead: DeadEndpoints,
    minio_server: MinioServer,
) -> None:
    put_secret(case, minio_server)
    case.cluster = on_minio(case, minio_server)
    for number, url in enumerate(dead.urls):
        put_store(case, f"dead-{number}", url)
        declare(case, f"dead-{number}", "lake", f"dead-{number}")
    bucket = minio_server.create_bucket()
    put_store(case, "minio", minio_server.endpoint)
    declare(case, "people", bucket, "minio")

    started_s = time.monotonic()
    controller = case.start()
    job = case.until_job("create")
    first_s = time.monotonic() - started_s
    case.cluster.carry_out(job)
    case.until_ready()
    waits = []
    for number in range(3):
        before = tuple(item["metadata"]["name"] for item in case.cluster.all_jobs())
        minio_server.client().fput_object(
            bucket, f"people-landing/{number}.parquet", __file__
        )  # fmt: skip
        landed_s = time.monotonic()
        job = case.until_job("ingest", but=before)
        waits.append(time.monotonic() - landed_s)
        case.cluster.carry_out(job)
        time.sleep(5.0)
    print(f"create after {first_s:.1f} s, ingests after {[round(wait, 1) for wait in waits]} s")
    assert max(first_s, *waits) < SOON_S
    names = [f"dead-{number}" for number in range(DEAD)]
    case.until(
        lambda: {reason(case, name) for name in names} == {"StorageUnavailable"}, "all are reported"
    )
    assert len(controller.endpoints.unavailable) == DEAD
    assert controller.problems() == [] and controller.delays() == []


@pytest.mark.slow
def test_a_healthy_table_notices_nothing_when_forty_endpoints_die_at_the_same_moment(
    case: ControllerCase, minio_server: MinioServer
) -> None:
    put_secret(case, minio_server)
    case.cluster = on_minio(case, minio_server)
    bucket = minio_server.create_bucket()
    port = int(minio_server.endpoint.rpartition(":")[2])
    names = [f"dead-{number}" for number in range(DEAD)]
    with ExitStack() as stack:
        proxies = [stack.enter_context(HangingProxy(port)) for _ in names]
        for name, proxy in zip(names, proxies, strict=True):
            put_store(case, name, f"http://127.0.0.1:{proxy.port}")
            declare(case, name, bucket, name)
        put_store(case, "minio", minio_server.endpoint)
        declare(case, "people", bucket, "minio")
        controller = case.start(limits=Limits(operations_max=50))
        with CarryingOut(case.cluster):
            for name in (*names, "people"):
                case.until(partial(is_current, case, name), f"{name} is there", 60.0)
        for proxy in proxies:
            proxy.swallow_replies()
        waits = []
        for number in range(5):
            waits.append(wait_for_ingest(case, minio_server, bucket, number))
            time.sleep(2.0)
        print(f"ingests after {[round(wait, 1) for wait in waits]} s, most threads: "
              f"{case.measured('tideline_worker_threads')}")  # fmt: skip
        assert max(waits) < SOON_S
        case.until(
            lambda: len(controller.endpoints.unavailable) == DEAD, "all are left alone", 60.0
        )
        assert controller.problems() == [] and controller.delays() == []
