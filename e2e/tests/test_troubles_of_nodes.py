"""What Kubernetes does to pods at work: an image that is not there, an eviction, a range of limits,
an API server that stops answering. Each is named, and no row is lost or doubled."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.harness.cluster import Cluster
from e2e.harness.lake import DRIVER, QUICK, QUICK_JAVA, SMALL_RESOURCES, Lake, some_rows
from e2e.harness.long_write import MANY, assert_each_row_once, begin_to_write

OUTAGE_S = 45.0
"""Longer than the operator's lease."""
_NO_ANSWER = ("imed out", "Timeout exceeded", "deadline exceeded")


def test_an_image_that_is_not_there_is_named_and_work_begins_when_it_is_corrected(
    lake: Lake,
) -> None:
    (container,) = QUICK_JAVA["spec"]["containers"]
    wrong = {**container, "image": "localhost/no-such-engine:dev", "imagePullPolicy": "Never"}
    lake.land("people", "a", some_rows(3))
    lake.apply_table("people", podTemplate={"spec": {"containers": [wrong]}}, **QUICK)
    ready = lake.wait_for("people", "Ready", "False", reason="OperationStuck", timeout_s=120)
    assert "localhost/no-such-engine:dev" in ready["message"], ready
    assert lake.paths("people/") == []
    lake.apply_table("people", **QUICK)
    lake.wait_for_ids("people", range(3))
    lake.wait_for("people", "Ready", timeout_s=60)


def test_an_evicted_driver_is_replaced_and_its_files_are_ingested_once(lake: Lake) -> None:
    # A driver alone would be done before it is gone.
    instant = begin_to_write(lake, "Spark")
    (driver,) = lake.running(DRIVER)
    name = driver["metadata"]["name"]
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": lake.namespace},
    }
    path = f"/api/v1/namespaces/{lake.namespace}/pods/{name}/eviction"
    lake.cluster.kubectl("create", "--raw", path, "-f", "-", given=json.dumps(eviction))
    lake.cluster.wait_gone("Pod", name, lake.namespace, timeout_s=120)
    lost = lake.wait_for_operation("people", "ingest", "Failed", timeout_s=60)
    # It had time to undo its write.
    assert "SIGTERM" in lost["message"], lost
    assert lake.inflight("people") == []
    done = lake.wait_for_operation("people", "ingest")
    assert done.get("attempt", 1) == 2
    assert done["instant"] != instant
    assert_each_row_once(lake, lost=instant)


def test_a_range_of_limits_that_admits_no_driver_is_named_and_heals(lake: Lake) -> None:
    narrow = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "narrow", "namespace": lake.namespace},
        "spec": {"limits": [{"type": "Container", "max": {"memory": "600Mi"}}]},
    }
    lake.cluster.apply(narrow)
    lake.land("people", "a", some_rows(3))
    lake.apply_table("people", **QUICK)
    ready = lake.wait_for("people", "Ready", "False", reason="OperationStuck", timeout_s=120)
    assert "maximum memory usage per Container is 600Mi" in ready["message"], ready
    lake.cluster.kubectl("delete", "limitrange", "narrow", "-n", lake.namespace)
    lake.wait_for_ids("people", range(3))


def test_executors_that_a_range_of_limits_refuses_are_named_and_heal(lake: Lake) -> None:
    lake.land("people", "many", some_rows(MANY))
    executor = {**SMALL_RESOURCES["executor"], "memory": "2Gi"}
    lake.cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "narrow", "namespace": lake.namespace},
            "spec": {"limits": [{"type": "Container", "max": {"memory": "1800Mi"}}]},
        }
    )
    lake.apply_table(
        "people",
        resources={**SMALL_RESOURCES, "executor": executor},
        engine={"small": "Spark"},
    )
    ready = lake.wait_for("people", "Ready", "False", reason="ExecutorsRefused", timeout_s=180)
    assert "1800Mi" in ready["message"], ready
    lake.patch("people", {"resources": {"executor": {"memory": "1200Mi"}}})
    done = lake.wait_for_operation("people", "ingest")
    assert done["id"]
    assert sorted(lake.by_id("people")) == list(range(MANY))


def test_work_outlasts_an_api_server_that_does_not_answer(lake: Lake, cluster: Cluster) -> None:
    instant = begin_to_write(lake)
    with silent(cluster, "kube-apiserver"):
        time.sleep(OUTAGE_S)
    done = lake.wait_for_operation("people", "ingest")
    assert (done["instant"], done.get("attempt", 1)) == (instant, 1)
    assert len(lake.jobs("people")) == 1
    assert sorted(lake.by_id("people")) == list(range(MANY))
    lake.land("people", "next", [{"id": MANY, "ts": 1, "name": "after the outage"}])
    lake.wait_for_ids("people", range(MANY + 1))


def test_work_outlasts_an_etcd_that_does_not_answer(lake: Lake, cluster: Cluster) -> None:
    lake.apply_table("people", **QUICK)
    lake.wait_for("people", "Ready", "False", reason="NoTable")
    with silent(cluster, "etcd"):
        lake.land("people", "first", some_rows(3))
        time.sleep(OUTAGE_S)
    lake.wait_for_ids("people", range(3))
    assert len(lake.jobs("people")) == 1
    lake.wait_for("people", "Ready")


@contextmanager
def silent(cluster: Cluster, daemon: str) -> Iterator[None]:
    """`Cluster.silent` for a daemon without which kubectl has no answer."""
    with cluster.silent(daemon):
        said = cluster.kubectl("get", "namespaces", "--request-timeout=3s", check=False)
        assert any(words in said for words in _NO_ANSWER), said
        yield
