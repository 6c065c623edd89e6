"""Pods that the node itself ends, or says nothing of: memory, local storage, a silent kubelet.

Each is named, and no row is lost or doubled.
"""

from __future__ import annotations

import time
from datetime import datetime

from e2e.harness.cluster import Cluster
from e2e.harness.lake import DRIVER, SMALL_RESOURCES, Lake
from e2e.harness.long_write import assert_each_row_once, begin_to_write

CONTAINER = "engine"
HOLD_MEMORY = """
import os, time
for _ in range(40):
    if os.fork() == 0:
        held = b"x" * (40 << 20)
        time.sleep(120)
        os._exit(0)
time.sleep(120)
"""
"""Each process takes less than the driver: it is the driver that the kernel ends."""
FILL_STORAGE = """
import os, signal, time
open("/tmp/full", "wb").write(b"x" * (300 << 20))
for name in filter(str.isdecimal, os.listdir("/proc")):
    if int(name) not in (1, os.getpid()):
        os.kill(int(name), signal.SIGSTOP)
time.sleep(300)
"""
"""The kubelet looks at storage once a minute: the write stands still until then."""
SILENT_S = 20.0
"""Shorter than what Kubernetes takes to call a node lost: then MinIO's Service has no pod left."""


def test_a_driver_that_the_kernel_ends_for_its_memory_says_what_to_raise(lake: Lake) -> None:
    instant = begin_to_write(lake, "Spark")
    run_in_driver(lake, HOLD_MEMORY)
    lost = lake.wait_for_operation("people", "ingest", "Failed", timeout_s=90)
    assert lost["error"] == "OutOfMemory", lost
    assert "OOMKilled: raise spec.resources.driver.memory" in lost["message"], lost
    done = lake.wait_for_operation("people", "ingest")
    assert done.get("attempt", 1) == 2
    # Memory that was too little is too little a moment later.
    assert seconds(done["startedAt"]) - seconds(lost["finishedAt"]) >= 5
    assert_each_row_once(lake, instant)


def test_a_driver_that_the_kubelet_evicts_for_its_storage_is_replaced(lake: Lake) -> None:
    driver = {**SMALL_RESOURCES["driver"], "ephemeralStorage": "200Mi"}
    resources = {**SMALL_RESOURCES, "driver": driver}
    instant = begin_to_write(lake, "Spark", resources=resources)
    run_in_driver(lake, FILL_STORAGE)
    lost = lake.wait_for_operation("people", "ingest", "Failed", timeout_s=240)
    assert "Evicted" in lost["message"] or "ephemeral" in lost["message"], lost
    assert lake.wait_for_operation("people", "ingest").get("attempt", 1) == 2
    assert_each_row_once(lake, instant)


def test_a_driver_on_a_silent_node_is_not_joined_by_a_second_one(
    lake: Lake, cluster: Cluster
) -> None:
    begin_to_write(lake, "Spark")
    (driver,) = lake.running(DRIVER)
    with cluster.silent("kubelet"):
        name = driver["metadata"]["name"]
        lake.cluster.kubectl("delete", "pod", name, "-n", lake.namespace, "--wait=false")
        until_s = time.monotonic() + SILENT_S
        while time.monotonic() < until_s:
            assert drivers(lake) == {driver["metadata"]["uid"]}
            time.sleep(1.0)
        (entry,) = lake.get("people")["status"]["operations"]
        assert entry["phase"] == "Running", entry
    lake.wait_for_operation("people", "ingest")
    assert_each_row_once(lake)


def run_in_driver(lake: Lake, program: str) -> None:
    """Start a program in the driver's container."""
    (driver,) = lake.running(DRIVER)
    place = ["-n", lake.namespace, driver["metadata"]["name"], "-c", CONTAINER]
    lake.cluster.start_kubectl("exec", *place, "--", "python3", "-c", program)


def drivers(lake: Lake) -> set[str]:
    return {pod["metadata"]["uid"] for pod in lake.pods(DRIVER)}


def seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
