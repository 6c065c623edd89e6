"""LakeStores: a bucket that goes missing is noticed at once, and the results of its checks are
kept."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tideline.clock import SystemClock
from tideline.ingest.location import Location
from tideline.storage.probe.report import ProbeOutcome, ProbeResult, StorePromise, StoreReport
from tideline.testing.minio_server import MinioServer
from tideline_operator.api_objects import LAKE_STORES, LAKE_TABLES, SECRETS, Manifest
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.store_watch import StoreWatch
from tideline_operator.decide.observed import Problem
from tideline_operator.report.store_status import bucket_checked, bucket_looked_at, store_status
from tideline_operator.resources.lake_store import LakeStoreSpec
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.status import ConditionStatus
from tideline_operator.resources.store_status import BucketStatus, LakeStoreStatus
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.table_states import resolved

NOW_MS = 1_800_000_000_000
PASSED = ProbeResult(StorePromise.CREATE_ONCE, ProbeOutcome.PASSED)
FAILED = ProbeResult(StorePromise.CREATE_RACE, ProbeOutcome.FAILED, "lets two of four win: no")
GOOD, BAD = StoreReport((PASSED,)), StoreReport((PASSED, FAILED))
MISSING = Problem("MissingBucket", "the bucket does not exist; create it", 2, is_transient=True)


def checked(**buckets: BucketStatus) -> tuple[ConditionStatus, str, str]:
    (ready,) = store_status(LakeStoreStatus(), buckets, 3, NOW_MS).conditions
    return ready.status, ready.reason, ready.message


def test_a_store_is_as_good_as_its_worst_bucket() -> None:
    good, bad = bucket_checked(GOOD, 3, NOW_MS), bucket_checked(BAD, 3, NOW_MS)
    assert checked() == (ConditionStatus.UNKNOWN, "NotUsed", "no table uses a bucket of it")
    assert checked(a=good) == (ConditionStatus.TRUE, "Reachable", "")
    status, reason, message = checked(a=good, b=bad)
    assert (status, reason) == (ConditionStatus.FALSE, "PromisesBroken")
    assert message == "bucket b did not pass 1 check: it lets two of four win: no"
    missing = bucket_looked_at(good, MISSING)
    assert checked(a=missing)[:2] == (ConditionStatus.FALSE, "MissingBucket")
    assert checked(a=missing)[2].endswith("create it")


def test_a_look_keeps_the_results_of_the_checks_and_vice_versa() -> None:
    bad = bucket_checked(BAD, 3, NOW_MS)
    away = bucket_looked_at(bad, MISSING)
    assert (away.outcome, away.checked_generation) == ("failed", 3)
    assert bucket_looked_at(away, None) == bad


def test_a_condition_of_a_store_keeps_the_time_it_changed() -> None:
    good = bucket_checked(GOOD, 3, NOW_MS)
    first = store_status(LakeStoreStatus(), {"a": good}, 3, NOW_MS)
    assert store_status(first, {"a": good}, 3, NOW_MS + 5) == first
    gone = store_status(first, {"a": bucket_looked_at(good, MISSING)}, 3, NOW_MS + 9)
    assert gone.conditions[0].last_transition_time.ms == NOW_MS + 9


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


def put_store(case: ControllerCase, server: MinioServer) -> None:
    pair = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    data = {name: base64.b64encode(text.encode()).decode() for name, text in pair.items()}
    secret: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys", "namespace": case.namespace},
        "data": data,
    }
    case.api.create(SECRETS, secret, case.namespace)
    store: Manifest = {
        "apiVersion": LAKE_STORES.api_version,
        "kind": LAKE_STORES.kind,
        "metadata": {"name": "minio", "namespace": case.namespace},
        "spec": {"endpoint": server.endpoint, "credentials": {"secretName": "keys"}},
    }
    case.api.create(LAKE_STORES, store, case.namespace)


def store_ready(case: ControllerCase) -> Manifest:
    found = case.api.get(LAKE_STORES, "minio", case.namespace)
    conditions = ((found or {}).get("status") or {}).get("conditions") or [{}]
    return dict(conditions[0])


@pytest.mark.api_server
@pytest.mark.minio
def test_a_bucket_that_is_missing_or_goes_missing_is_noticed_at_once(
    case: ControllerCase, minio_server: MinioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline_operator.controller.store_watch.LOOK_S", 0.5)
    bucket = f"bucket-{case.namespace}"
    put_store(case, minio_server)
    case.declare(location=f"s3://{bucket}/people", storeRef="minio", ingest=None)
    case.start(resync_s=600.0)

    def says_missing() -> bool:
        return case.condition("Ready").get("reason") == "MissingBucket"

    case.until(says_missing, "the table reports it", 5.0)
    assert "create it" in case.condition("Ready")["message"]
    assert case.condition("ServicesCurrent")["status"] == "Unknown"
    case.until(lambda: store_ready(case).get("reason") == "MissingBucket", "so does the store", 5.0)
    case.until_event("MissingBucket")
    case.until_event("MissingBucket", "minio")
    minio_server.create_bucket(bucket)
    case.until_job("create")
    case.until(lambda: store_ready(case).get("status") == "True", "it is reached", 5.0)
    found = case.api.get(LAKE_STORES, "minio", case.namespace)
    assert found is not None
    kept = found["status"]["buckets"][bucket]
    assert kept["outcome"] == "passed"
    assert {item["name"] for item in kept["checks"]} >= {"create-race", "replace-race"}
    assert kept["checkedGeneration"] == found["metadata"]["generation"]
    # Nothing else would look at this table for ten minutes.
    case.cluster.start_pod(case.until_job("create"))
    case.until(lambda: case.operations()[-1]["phase"] == "Running", "the Job was seen")
    client = minio_server.client()
    for item in list(client.list_objects(bucket, recursive=True)):
        client.remove_object(bucket, item.object_name)
    client.remove_bucket(bucket)
    case.until(says_missing, "the table reports it again", 5.0)
    case.until(lambda: store_ready(case).get("status") == "False", "so does the store", 5.0)
    written = case.requests("apply", "lakestores")
    looked = case.turns()
    case.until(lambda: case.event_reasons().count("MissingBucket") == 2, "another event", 5.0)
    assert case.requests("apply", "lakestores") - written <= 1
    assert case.turns() - looked <= 5


@pytest.mark.api_server
@pytest.mark.minio
def test_a_landing_bucket_that_was_gone_is_reached_again(
    case: ControllerCase, minio_server: MinioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline_operator.controller.store_watch.LOOK_S", 0.5)
    bucket = f"landing-{case.namespace}"
    put_store(case, minio_server)
    source = {"format": "parquet", "path": f"s3://{bucket}/people", "storeRef": "minio"}
    case.declare(ingest=[{"name": "landing", "source": source, "trigger": {"every": "1s"}}])
    case.start()
    case.until(lambda: store_ready(case).get("reason") == "MissingBucket", "it is reported", 10.0)
    minio_server.create_bucket(bucket)
    case.until(lambda: store_ready(case).get("status") == "True", "it is reached", 10.0)
    minio_server.client().remove_bucket(bucket)
    case.until(lambda: store_ready(case).get("status") == "False", "it is gone", 10.0)


@pytest.mark.api_server
@pytest.mark.minio
def test_data_in_a_bucket_that_does_not_exist_is_deleted_already(
    case: ControllerCase, minio_server: MinioServer
) -> None:
    put_store(case, minio_server)
    location = f"s3://never-{case.namespace}/people"
    case.declare(location=location, storeRef="minio", ingest=None, deletionPolicy="Delete")
    case.start()
    case.until(lambda: case.condition("Ready").get("reason") == "MissingBucket", "it is seen")
    case.api.delete(LAKE_TABLES, "people", case.namespace)
    case.until(
        lambda: case.api.get(LAKE_TABLES, "people", case.namespace) is None, "it is gone", 15.0
    )
    assert f"there is nothing at {location}" in case.event_notes()


@pytest.mark.api_server
@pytest.mark.minio
def test_a_store_whose_secret_is_gone_is_not_ready(
    case: ControllerCase, minio_server: MinioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tideline_operator.controller.store_watch.LOOK_S", 0.5)
    monkeypatch.setattr("tideline_operator.controller.connections.FRESH_S", 0.5)
    bucket = minio_server.create_bucket(f"keys-{case.namespace}")
    put_store(case, minio_server)
    case.declare(location=f"s3://{bucket}/people", storeRef="minio", ingest=None)
    case.start()
    case.until(lambda: store_ready(case).get("status") == "True", "it is reached")
    case.api.delete(SECRETS, "keys", case.namespace)
    case.until(lambda: store_ready(case).get("reason") == "SecretMissing", "it is reported")
    # So it is for a process that never saw the Secret.
    case.stop()
    case.start()
    case.until(lambda: case.turns() > 0, "a turn was taken")
    assert store_ready(case).get("reason") == "SecretMissing"


@pytest.mark.api_server
@pytest.mark.minio
def test_another_store_of_the_same_name_is_checked_itself(
    case: ControllerCase, minio_server: MinioServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its generation is that of the former one."""
    monkeypatch.setattr("tideline_operator.controller.store_watch.LOOK_S", 0.5)
    bucket = minio_server.create_bucket(f"again-{case.namespace}")
    put_store(case, minio_server)
    case.declare(location=f"s3://{bucket}/people", storeRef="minio", ingest=None)
    case.start()

    def checks() -> list[Manifest]:
        found = case.api.get(LAKE_STORES, "minio", case.namespace) or {}
        buckets = (found.get("status") or {}).get("buckets") or {}
        return [{**found["metadata"], **kept} for kept in buckets.values() if kept.get("checkedAt")]

    case.until(lambda: bool(checks()), "it is checked", 10.0)
    (first,) = checks()
    case.api.delete(LAKE_STORES, "minio", case.namespace)
    case.until(lambda: case.condition("Ready").get("reason") == "StoreMissing", "it is gone", 10.0)
    case.api.delete(SECRETS, "keys", case.namespace)
    put_store(case, minio_server)
    case.until(lambda: bool(checks()), "the other one has a status", 10.0)
    (second,) = checks()
    assert second["uid"] != first["uid"]
    assert second["checkedGeneration"] == first["checkedGeneration"] == 1
    assert second["checkedAt"] > first["checkedAt"]


def test_a_store_is_checked_by_tables_that_were_resolved_with_it() -> None:
    """One that was edited has another endpoint, which the table does not know yet."""
    checked: list[LakeStoreSpec] = []

    class Looks:
        def probe(self, *_: object) -> None:
            pass

        def check_store(self, _: object, table: ResolvedTable, __: object) -> StoreReport:
            checked.extend(table.stores.values())
            return GOOD

    before, after = LakeStoreSpec(endpoint="https://before.test"), "https://after.test"
    item: Manifest = {"metadata": {"name": "lake", "namespace": "default", "uid": "1",
                                   "generation": 2}, "spec": {"endpoint": after}}  # fmt: skip
    stores = ObjectCache()
    stores.put(item)
    location = Location("s3://lake/people")
    table = resolved(ingest=[], storeRef="lake")
    api: Any = SimpleNamespace(check_may_write=lambda: None)
    looks: Any = Looks()
    nothing: Any = None
    watch = StoreWatch(
        api, stores, looks, lambda _: nothing, nothing, nothing, SystemClock(), nothing
    )
    for spec in (before, LakeStoreSpec(endpoint=after)):
        watch.note(("default", "people"), replace(table, location=location, stores={"lake": spec}))
        (bucket, use), *_ = watch._used().items()
        found = watch._look_at(bucket, use, is_probe=False)
        assert (found.checked_generation == 2) is (spec is not before)
    assert checked == [LakeStoreSpec(endpoint=after)]


@pytest.mark.api_server
@pytest.mark.minio
def test_a_restart_leaves_what_is_known_of_a_store(
    case: ControllerCase, minio_server: MinioServer
) -> None:
    bucket = minio_server.create_bucket(f"kept-{case.namespace}")
    put_store(case, minio_server)
    case.declare(location=f"s3://{bucket}/people", storeRef="minio", ingest=None)
    case.start()
    case.until(lambda: store_ready(case).get("status") == "True", "it is reached")
    case.stop()
    controller = case.make()
    # The first look of the watch comes before the first turn.
    for reflector in controller._reflectors:
        reflector._list()
    for item in controller.tables.all():
        controller._store_watch.expect((case.namespace, item["metadata"]["name"]), ["minio"])
    controller._store_watch.look()
    # A turn that cannot resolve the table, as in a namespace that is not open, tells nothing new.
    for item in controller.tables.all():
        controller._store_watch.had_turn((case.namespace, item["metadata"]["name"]))
    controller._store_watch._report_s = 0.0
    controller._store_watch.look()
    controller.stop()
    assert store_ready(case).get("status") == "True"
    assert case.requests("apply", "lakestores") == 0
