"""Mistakes of a user: the API server refuses them by path, or a condition says what to do."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from kubernetes.dynamic.exceptions import DynamicApiError

from e2e.harness.cluster import Cluster
from e2e.harness.installation import NAMESPACE, Operator
from e2e.harness.lake import SECRET, STORE, Lake
from e2e.harness.object_store import SECRET_KEYS, ClusterMinio
from e2e.harness.requests import RequestLog
from tideline.testing.peer_environment import PeerEnvironment

ROWS = [{"id": 1, "ts": 1, "name": "Ada"}]
HEAL_TIMEOUT_S = 300.0
WATCHED_S = 30
REQUESTS_MAX = 15
"""Of three tables together; with nothing but the queue that paces each, there would be hundreds."""
OPERATOR = f"{NAMESPACE}:tideline-operator"


def server_message(refusal: DynamicApiError) -> str:
    return str(json.loads(refusal.body or "{}")["message"])


@pytest.fixture
def bare_lake(
    cluster: Cluster,
    operator: Operator,  # noqa: ARG001 -- must be installed, nothing more
    minio: ClusterMinio,
    namespace: str,
    hudi_rs: PeerEnvironment,
) -> Iterator[Lake]:
    """A namespace without a bucket."""
    lake = Lake(cluster, minio, namespace, hudi_rs)
    lake.prepare(has_bucket=False)
    yield lake


@pytest.mark.parametrize(
    ("change", "path", "expected"),
    [
        ({"type": "MERGE_SOMETIMES"}, "spec.type", "COPY_ON_WRITE"),
        ({"recordKey": ["no spaces"]}, "spec.recordKey[0]", "a column name"),
        ({"suspend": "perhaps"}, "spec.suspend", "boolean"),
        ({"resources": {"executor": {"min": 3, "max": 2}}}, "spec.resources.executor.min", "max"),
        ({"index": {"type": "SIMPLE", "buckets": 4}}, "spec.index.buckets", "BUCKET"),
        ({"servces": {}}, "spec.servces", "not declared"),
    ],
)
def test_an_invalid_spec_is_refused_with_its_path(
    lake: Lake, change: Mapping[str, Any], path: str, expected: str
) -> None:
    with pytest.raises(DynamicApiError) as refused:
        lake.apply_table("people", **change)
    message = server_message(refused.value)
    assert path in message or path.removeprefix("spec") in message
    assert expected in message


def test_what_data_is_laid_out_by_cannot_be_changed(lake: Lake) -> None:
    lake.apply_table("people", suspend=True)
    with pytest.raises(DynamicApiError) as refused:
        lake.patch("people", {"recordKey": ["name"]})
    assert "spec.recordKey" in server_message(refused.value)


def test_wrong_credentials_are_reported_and_the_table_recovers_when_they_are_corrected(
    lake: Lake,
) -> None:
    lake.apply_secret(dict.fromkeys(SECRET_KEYS, "wrong-on-purpose"))
    lake.land("people", "first", ROWS)
    lake.apply_table("people")
    ready = lake.wait_for("people", "Ready", "False", reason="StorageUnavailable")
    assert "wrong-on-purpose" not in ready["message"]
    assert "credentials" in ready["message"]
    lake.apply_secret(lake.minio.credentials)
    lake.wait_for_ids("people", [1], timeout_s=HEAL_TIMEOUT_S)
    lake.wait_for("people", "Ready")


def test_a_missing_secret_is_named_and_the_table_recovers_when_it_exists(lake: Lake) -> None:
    lake.cluster.delete("Secret", "minio-credentials", lake.namespace)
    lake.land("people", "first", ROWS)
    lake.apply_table("people")
    ready = lake.wait_for("people", "Ready", "False", reason="SecretMissing", timeout_s=60)
    assert "minio-credentials" in ready["message"]
    lake.apply_secret(lake.minio.credentials)
    lake.wait_for_ids("people", [1], timeout_s=HEAL_TIMEOUT_S)


def test_a_missing_bucket_is_named_and_the_table_recovers_when_it_exists(bare_lake: Lake) -> None:
    lake = bare_lake
    lake.apply_table("people")
    ready = lake.wait_for("people", "Ready", "False", reason="MissingBucket", timeout_s=120)
    assert lake.bucket in ready["message"]
    lake.minio.client().make_bucket(lake.bucket)
    lake.land("people", "first", ROWS)
    lake.wait_for_ids("people", [1], timeout_s=HEAL_TIMEOUT_S)


def test_a_missing_bucket_is_created_where_the_store_allows_it(bare_lake: Lake) -> None:
    lake = bare_lake
    lake.apply_store(createBuckets=True)
    columns = [{"name": name, "type": kind} for name, kind in (("id", "long"), ("ts", "long"))]
    lake.apply_table("people", schema=columns)
    lake.wait_for_operation("people", "create")
    assert lake.minio.client().bucket_exists(lake.bucket)
    lake.land("people", "first", [{"id": 1, "ts": 1}])
    lake.wait_for_ids("people", [1])


def test_a_file_that_cannot_be_read_is_set_aside_and_the_others_are_ingested(lake: Lake) -> None:
    lake.put("landing/people/broken.parquet", b"PAR1 this is not parquet PAR1")
    lake.land("people", "first", ROWS)
    lake.apply_table("people")
    lake.wait_for_ids("people", [1])
    lake.cluster.wait_until(
        lambda: lake.get("people")["status"]["ingest"]["landing"].get("quarantinedFiles") == 1,
        "the broken file is counted",
        timeout_s=60,
    )


def test_nothing_is_retried_in_a_hot_loop(lake: Lake) -> None:
    """Three blocked tables: with wrong keys, without keys, without the right to create Jobs."""
    path = lake.cluster.audit_log()
    if path is None:
        pytest.skip("kind's API server has no audit log")
    log = RequestLog(path)
    lake.apply_secret(dict.fromkeys(SECRET_KEYS, "wrong-on-purpose"), "wrong")
    lake.forbid_jobs()
    lake.land("refused", "first", ROWS)
    for table, store, secret in (
        ("locked-out", "locked", "wrong"),
        ("keyless", "keyless", "missing"),
        ("refused", STORE, SECRET),
    ):
        lake.apply_store(store, secret)
        lake.apply_table(table, storeRef=store)
    tables = ("locked-out", "keyless", "refused")
    lake.wait_for("locked-out", "Ready", "False", reason="StorageUnavailable")
    lake.wait_for("keyless", "Ready", "False", reason="SecretMissing")
    lake.wait_for("refused", "Ready", "False", reason="OperationFailed")
    lake.wait_for_operation("refused", "ingest", "Failed")
    begun = asked_by_operator(log, lake)
    assert all(begun[f"patch laketables/status {table}"] for table in tables), begun
    assert any(what.startswith("create jobs ") for what in begun), begun
    refused = lake.minio.requests_refused()
    assert refused, "the object store refused no request"

    log = RequestLog(path)
    time.sleep(WATCHED_S)
    asked = asked_by_operator(log, lake)
    assert sum(asked.values()) <= REQUESTS_MAX, asked
    refused = lake.minio.requests_refused() - refused
    assert refused <= REQUESTS_MAX, f"the object store refused {refused} requests"


def asked_by_operator(log: RequestLog, lake: Lake) -> Counter[str]:
    """The operator's requests about a namespace, by verb, resource and name."""
    return Counter(
        f"{request.verb} {request.resource} {request.name}"
        for request in log.requests()
        if (request.account, request.namespace) == (OPERATOR, lake.namespace)
    )
