"""Spark settings of a driver on Kubernetes: memory, addresses, executors."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tideline.errors import ConfigError
from tideline.ingest.executors.kubernetes_pods import (
    MEMORY_BYTES_MIN,
    SparkPods,
    ThisPod,
    heap_mib,
    spark_settings,
    task_slots,
)
from tideline.ingest.executors.spark_conf import KUBERNETES_CONF, refused_conf
from tideline.spark.session.spark_session import spark_configuration

GIB = 1024**3
PODS = SparkPods(
    image="localhost/tideline-engine:dev",
    pull_policy="IfNotPresent",
    driver_memory_bytes=GIB,
    executor_memory_bytes=2 * GIB,
    executor_cpu="500m",
    executor_slots=1,
    executors_min=0,
    executors_max=3,
    executor_template="/etc/tideline/operation/executor-pod.json",
)
ENVIRONMENT = {
    "POD_NAME": "flights-ingest-0a1b2c3d4e5f-1-abcde",
    "POD_NAMESPACE": "lake",
    "POD_IP": "10.244.0.7",
    "KUBERNETES_SERVICE_HOST": "10.96.0.1",
    "KUBERNETES_SERVICE_PORT": "443",
}
POD = ThisPod.of(ENVIRONMENT)


@pytest.mark.parametrize(
    ("container_mib", "heap"),
    [(896, 512), (1024, 512), (1280, 512), (2048, 819), (4096, 1638), (32768, 13107)],
)
def test_the_heap_leaves_room_for_python_and_arrow(container_mib: int, heap: int) -> None:
    assert heap_mib(container_mib * 1024**2) == heap


def test_the_smallest_container_holds_the_smallest_heap() -> None:
    assert heap_mib(MEMORY_BYTES_MIN) == 512


@pytest.mark.parametrize(("cores", "slots"), [(0.1, 1), (1, 1), (1.5, 2), (4, 4)])
def test_an_executor_runs_as_many_tasks_as_it_has_cores(cores: float, slots: int) -> None:
    assert task_slots(cores) == slots


def test_an_executor_container_has_the_memory_that_was_given() -> None:
    settings = spark_settings(PODS, POD)
    heap = int(settings["spark.executor.memory"].removesuffix("m"))
    rest = int(settings["spark.executor.memoryOverhead"].removesuffix("m"))
    assert heap + rest == 2048


def test_the_driver_is_reached_at_its_pods_address() -> None:
    settings = spark_settings(PODS, POD)
    assert settings["spark.driver.host"] == settings["spark.driver.bindAddress"] == "10.244.0.7"
    assert (settings["spark.driver.port"], settings["spark.blockManager.port"]) == ("7078", "7079")
    assert settings["spark.kubernetes.driver.pod.name"] == ENVIRONMENT["POD_NAME"]
    assert settings["spark.kubernetes.namespace"] == "lake"


def test_executors_come_and_go_with_the_work() -> None:
    settings = spark_settings(replace(PODS, executors_min=2), POD)
    allocation = "spark.dynamicAllocation"
    assert settings[f"{allocation}.enabled"] == settings["spark.decommission.enabled"] == "true"
    assert settings[f"{allocation}.minExecutors"] == "2"
    assert settings[f"{allocation}.initialExecutors"] == "2"
    assert settings[f"{allocation}.maxExecutors"] == "3"
    assert spark_settings(PODS, POD)[f"{allocation}.initialExecutors"] == "1"


def test_no_setting_holds_a_credential() -> None:
    words = " ".join(f"{name}={value}" for name, value in spark_settings(PODS, POD).items())
    assert not any(part in words.lower() for part in ("secret", "access_key", "password"))


@pytest.mark.parametrize(
    ("host", "master"),
    [
        ("10.96.0.1", "k8s://https://10.96.0.1:443"),
        ("fd00::1", "k8s://https://[fd00::1]:443"),
        ("kubernetes.default.svc", "k8s://https://kubernetes.default.svc:443"),
    ],
)
def test_the_api_is_reached_by_the_services_address(host: str, master: str) -> None:
    assert ThisPod.of({**ENVIRONMENT, "KUBERNETES_SERVICE_HOST": host}).master == master


def test_executor_names_keep_the_end_of_the_drivers_name() -> None:
    name = "a-very-long-table-name-indeed-x-logcompaction-0123456789ab-1-abcde"
    prefix = spark_settings(PODS, replace(POD, name=name))[
        "spark.kubernetes.executor.podNamePrefix"
    ]
    assert name.endswith(prefix)
    assert len(prefix) <= 47
    assert prefix[0].isalnum()


def test_a_driver_says_what_is_missing_in_its_environment() -> None:
    with pytest.raises(ConfigError, match="POD_NAMESPACE, POD_IP"):
        ThisPod.of({"POD_NAME": "x"})


def test_pods_are_what_was_written(tmp_path: Path) -> None:
    file = tmp_path / "spark-pods.json"
    file.write_text(PODS.to_json())
    assert SparkPods.read(file) == PODS


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 9}', '{"version": 1}'])
def test_a_file_with_no_pods_is_named(content: str, tmp_path: Path) -> None:
    file = tmp_path / "spark-pods.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"spark-pods\.json"):
        SparkPods.read(file)


def test_an_unknown_field_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "spark-pods.json"
    file.write_text(json.dumps({**json.loads(PODS.to_json()), "other": 1}))
    with pytest.raises(ConfigError, match="other"):
        SparkPods.read(file)


@pytest.mark.parametrize("name", ["spark.executor.pyspark.memory", "spark.memory.offHeap.size"])
def test_what_makes_pods_larger_than_their_resources_cannot_be_given(name: str) -> None:
    assert refused_conf(name) == "give spec.resources.executor.memory"


def test_what_tideline_sets_cannot_be_given() -> None:
    accepted = [name for name in spark_settings(PODS, POD) if refused_conf(name) is None]
    assert accepted == ["spark.sql.shuffle.partitions"]
    session = spark_configuration("k8s://https://10.96.0.1:443")
    assert refused_conf("spark.sql.session.timeZone") == "Tideline sets it"
    mattering = {name for name in session if refused_conf(name) is None}
    assert mattering == {
        "spark.python.authenticate.socketTimeout",
        "spark.sql.execution.arrow.maxRecordsPerBatch",
        "spark.sql.execution.arrow.maxBytesPerBatch",
        "spark.python.worker.reuse",
        "spark.sql.adaptive.enabled",
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("hoodie.table.name", "begin with spark."),
        ("spark.executor.memory", "give spec.resources.executor.memory"),
        ("spark.eventLog.dir", "give spec.eventLogs of the LakeStore"),
        ("spark.hadoop.fs.s3a.secret.key", "belong in the Secret"),
        ("spark.hadoop.fs.s3a.access.key", "belong in the Secret"),
        ("spark.hadoop.fs.s3a.encryption.key", "belong in the Secret"),
        ("spark.hadoop.fs.azure.account.key.own.dfs.core.windows.net", "belong in the Secret"),
        ("spark.hadoop.fs.azure.sas.lake.own.blob.core.windows.net", "belong in the Secret"),
        ("spark.hadoop.fs.gs.auth.service.account.private.key", "belong in the Secret"),
        ("spark.executorEnv.AZURE_STORAGE_ACCOUNT_KEY", "belong in the Secret"),
        ("spark.executorEnv.AZURE_STORAGE_SAS_KEY", "belong in the Secret"),
        ("spark.executorEnv.GOOGLE_SERVICE_ACCOUNT_KEY", "belong in the Secret"),
        ("spark.kubernetes.namespace", "Tideline sets it"),
        ("spark.kubernetes.executor.volumes.hostPath.x.mount.path", "by spec.podTemplate"),
        ("spark.kubernetes.authenticate.serviceAccountName", "Tideline sets it"),
        ("spark.kubernetes.context", "by spec.podTemplate"),
    ],
)
def test_a_refusal_says_what_to_give_instead(name: str, reason: str) -> None:
    assert reason in str(refused_conf(name))


def test_of_what_makes_pods_only_numbers_and_times_are_taken() -> None:
    assert all(refused_conf(name) is None for name in KUBERNETES_CONF)
    assert refused_conf("spark.sql.shuffle.partitions") is None


def test_what_users_give_is_under_what_pods_are() -> None:
    given = {"spark.task.maxFailures": "2", "spark.sql.shuffle.partitions": "7"}
    settings = spark_settings(replace(PODS, conf=given), POD)
    assert settings["spark.task.maxFailures"] == "2"
    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.executor.cores"] == "1"


def test_pods_without_extras_are_as_older_engines_read_them(tmp_path: Path) -> None:
    assert {"conf", "event_logs"}.isdisjoint(json.loads(PODS.to_json()))
    path = tmp_path / "spark-pods.json"
    full = replace(PODS, conf={"spark.x": "1"}, event_logs="s3://lake/logs")
    path.write_text(full.to_json())
    assert SparkPods.read(path) == full
