"""Spark on Kubernetes: the pods of one operation, and the Spark settings that follow from them.

The operator decides on `SparkPods` and mounts it, as JSON, into the driver's pod; the driver, which
is `tideline execute`, makes its Spark settings of it and of where it runs (`ThisPod`). The driver
runs in client mode: Spark starts the executors, owned by the driver's pod, so that they go with it.

Memory is given per container. The heap gets `HEAP_PERCENT` of it, and never less than Spark
starts with; the rest is for Java itself, for Python and for Arrow.
"""

from __future__ import annotations

import ipaddress
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tideline.errors import ConfigError

SPARK_PODS_VARIABLE = "TIDELINE_SPARK_PODS"
"""Names the file with the SparkPods; a driver without it uses the machine it runs on."""
DRIVER_PORT = 7078
BLOCK_MANAGER_PORT = 7079
CONTAINER_NAME = "engine"
"""Of drivers and executors, so that one pod template fits both."""
HEAP_PERCENT = 40

_MIB = 1024 * 1024
_HEAP_MIB_MIN = 512
_REST_MIB_MIN = 384
MEMORY_BYTES_MIN = (_HEAP_MIB_MIN + _REST_MIB_MIN) * _MIB
"""The smallest container that a driver or an executor starts in."""

_NAME_PREFIX_LENGTH_MAX = 47
_VERSION = 1


@dataclass(frozen=True, slots=True)
class SparkPods:
    """Sizes and numbers of an operation's pods. Memory is that of the whole container.

    `executor_template` is the path of a pod, as JSON, that executors are made from. `conf` is
    Spark configuration that users gave; `event_logs` a prefix in the table's store, for what Spark
    did.
    """

    image: str
    pull_policy: str
    driver_memory_bytes: int
    executor_memory_bytes: int
    executor_cpu: str
    executor_slots: int
    executors_min: int
    executors_max: int
    executor_template: str
    conf: Mapping[str, str] = field(default_factory=dict)
    event_logs: str = ""

    def to_json(self) -> str:
        given = {name: value for name, value in asdict(self).items() if value not in ({}, "")}
        return json.dumps({"version": _VERSION, **given}, sort_keys=True)

    @classmethod
    def read(cls, path: Path) -> SparkPods:
        """Raises ConfigError naming the file when it holds none of this version."""
        try:
            content: dict[str, Any] = json.loads(path.read_bytes())
            version = content.pop("version")
            if version != _VERSION:
                raise ConfigError(f"is of version {version}, known is {_VERSION}", path=path)
            return cls(**content)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ConfigError(f"not a description of Spark pods: {error}", path=path) from error


@dataclass(frozen=True, slots=True)
class ThisPod:
    """The pod a driver runs in, and where it reaches the Kubernetes API."""

    name: str
    namespace: str
    ip: str
    api_url: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> ThisPod:
        """From what a Job of Tideline's sets. Raises ConfigError naming what is missing."""
        names = ("POD_NAME", "POD_NAMESPACE", "POD_IP")
        missing = [name for name in names if not environment.get(name)]
        if missing:
            raise ConfigError(f"a driver on Kubernetes needs {', '.join(missing)} set")
        name, namespace, ip = (environment[name] for name in names)
        # By address: the certificate names it, and no name server is needed.
        host = environment.get("KUBERNETES_SERVICE_HOST", "kubernetes.default.svc")
        port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        return cls(name, namespace, ip, f"https://{_in_url(host)}:{port}")

    @property
    def master(self) -> str:
        """What Spark calls this cluster."""
        return f"k8s://{self.api_url}"


def heap_mib(container_bytes: int) -> int:
    """The Java heap, in MiB, of a container with this much memory."""
    container_mib = container_bytes // _MIB
    wanted = max(_HEAP_MIB_MIN, container_mib * HEAP_PERCENT // 100)
    return min(wanted, max(_HEAP_MIB_MIN, container_mib - _REST_MIB_MIN))


def task_slots(cores: float) -> int:
    """How many tasks an executor runs at once: as many as it has cores, and at least one."""
    return max(1, math.ceil(cores))


def spark_settings(pods: SparkPods, pod: ThisPod) -> dict[str, str]:
    """Spark configuration of a driver in `pod`, in client mode."""
    return {
        "spark.sql.shuffle.partitions": str(max(4, 2 * pods.executor_slots * pods.executors_max)),
        **pods.conf,
        "spark.submit.deployMode": "client",
        "spark.driver.memory": f"{heap_mib(pods.driver_memory_bytes)}m",
        # Executors get the bind address, so 0.0.0.0 would not lead them to the driver.
        "spark.driver.host": pod.ip,
        "spark.driver.bindAddress": pod.ip,
        "spark.driver.port": str(DRIVER_PORT),
        "spark.driver.blockManager.port": str(BLOCK_MANAGER_PORT),
        "spark.blockManager.port": str(BLOCK_MANAGER_PORT),
        "spark.kubernetes.namespace": pod.namespace,
        # Makes the driver's pod the owner of the executors.
        "spark.kubernetes.driver.pod.name": pod.name,
        "spark.kubernetes.container.image": pods.image,
        "spark.kubernetes.container.image.pullPolicy": pods.pull_policy,
        "spark.kubernetes.executor.podTemplateFile": pods.executor_template,
        "spark.kubernetes.executor.podTemplateContainerName": CONTAINER_NAME,
        "spark.kubernetes.executor.podNamePrefix": _name_prefix(pod.name),
        "spark.kubernetes.executor.disableConfigMap": "true",
        **_executor_settings(pods),
        **_allocation_settings(pods),
    }


def _executor_settings(pods: SparkPods) -> dict[str, str]:
    heap = heap_mib(pods.executor_memory_bytes)
    slots = pods.executor_slots
    return {
        "spark.executor.cores": str(slots),
        "spark.kubernetes.executor.request.cores": pods.executor_cpu,
        "spark.executor.memory": f"{heap}m",
        "spark.executor.memoryOverhead": f"{pods.executor_memory_bytes // _MIB - heap}m",
    }


def _allocation_settings(pods: SparkPods) -> dict[str, str]:
    """Executors come with the work and go when idle; what they hold moves on before they go."""
    return {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(pods.executors_min),
        "spark.dynamicAllocation.initialExecutors": str(max(1, pods.executors_min)),
        "spark.dynamicAllocation.maxExecutors": str(pods.executors_max),
        "spark.dynamicAllocation.executorIdleTimeout": "60s",
        "spark.decommission.enabled": "true",
        "spark.storage.decommission.enabled": "true",
        "spark.storage.decommission.shuffleBlocks.enabled": "true",
        "spark.storage.decommission.rddBlocks.enabled": "true",
    }


def _name_prefix(pod_name: str) -> str:
    """The end of the name, which distinguishes operations and their attempts."""
    return pod_name[-_NAME_PREFIX_LENGTH_MAX:].lstrip("-")


def _in_url(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host
    except ValueError:
        return host
