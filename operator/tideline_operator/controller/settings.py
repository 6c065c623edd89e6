"""The controller's settings: environment variables of its Deployment."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tideline.errors import ConfigError
from tideline.ingest.executors.spark_conf import refused_conf
from tideline.tracing import FOR_PODS
from tideline.trust.addresses import AddressRules
from tideline_operator.controller.budgets import Limits
from tideline_operator.controller.namespace_usage import HourlyLimits
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.launch.pod_template import checked_template
from tideline_operator.reading.reader_processes import DEADLINE_S
from tideline_operator.reading.starting import AMBIENT_NAMESPACES
from tideline_operator.resources.variables import Variables, variable

DEFAULT_NAMESPACE = "tideline-system"
_RESOLV_CONF = Path("/etc/resolv.conf")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """The settings of a controller. An empty `namespaces` means all; without a `reader_socket` it
    starts what reads tables itself. `addresses` are those that it connects to for resources; for
    `ambient_namespaces` it may use its own identity at stores."""

    launch: LaunchSettings
    namespaces: tuple[str, ...] = variable("TIDELINE_NAMESPACES", Variables.names, ())
    limits: Limits = field(default_factory=Limits)
    hourly: HourlyLimits = field(default_factory=HourlyLimits)
    workers: int = variable("TIDELINE_WORKERS", Variables.number, 4)
    resync_s: float = variable("TIDELINE_RESYNC", Variables.seconds, 300.0)
    idle_polls_per_s: float = variable("TIDELINE_IDLE_POLLS_PER_SECOND", Variables.number, 17)
    deletion_deadline_s: float = variable("TIDELINE_DELETION_DEADLINE", Variables.seconds, 600.0)
    start_deadline_s: float = variable("TIDELINE_START_DEADLINE", Variables.seconds, 900.0)
    pod_name: str = ""
    pod_namespace: str = variable("POD_NAMESPACE", Variables.text, DEFAULT_NAMESPACE)
    metrics_port: int = variable("TIDELINE_METRICS_PORT", Variables.number, 8080)
    health_port: int = variable("TIDELINE_HEALTH_PORT", Variables.number, 8081)
    ui_port: int | None = variable("TIDELINE_UI_PORT", Variables.number)
    reader_socket: Path | None = None
    reader_deadline_s: float = variable("TIDELINE_READER_DEADLINE", Variables.seconds, DEADLINE_S)
    ui_token_file: Path | None = None
    log_level: str = "INFO"
    addresses: AddressRules = field(default_factory=AddressRules)
    ambient_namespaces: frozenset[str] = frozenset()

    @classmethod
    def from_environment(cls, given: Mapping[str, str] | None = None) -> ControllerSettings:
        """Raises ConfigError naming the variable that is wrong."""
        read = Variables(os.environ if given is None else given)
        image = read.text("TIDELINE_ENGINE_IMAGE")
        if not image:
            raise ConfigError("TIDELINE_ENGINE_IMAGE is not set: name the image that Jobs run")
        pull_policy = read.text("TIDELINE_ENGINE_PULL_POLICY") or "IfNotPresent"
        if pull_policy not in _PULL_POLICIES:
            allowed = ", ".join(_PULL_POLICIES)
            raise ConfigError(f"TIDELINE_ENGINE_PULL_POLICY: allowed: {allowed}", value=pull_policy)
        level = (read.text("TIDELINE_LOG_LEVEL") or "INFO").upper()
        if level not in ("DEBUG", "INFO", "WARNING", "ERROR"):
            raise ConfigError(
                "TIDELINE_LOG_LEVEL: allowed: debug, info, warning, error", value=level
            )
        return cls(
            launch=LaunchSettings(
                image=image,
                pull_policy=pull_policy,
                pod_template=_pod_template(read),
                spark_conf=_spark_conf(read),
                deadline_s=int(read.seconds("TIDELINE_OPERATION_DEADLINE") or 86_400),
                tracing={name: text for name in FOR_PODS if (text := read.text(name))},
            ),
            **read.declared(cls),
            limits=Limits(**read.declared(Limits)),
            hourly=HourlyLimits(**read.declared(HourlyLimits)),
            pod_name=read.text("POD_NAME") or socket.gethostname(),
            reader_socket=Path(text) if (text := read.text("TIDELINE_READER_SOCKET")) else None,
            ui_token_file=Path(file) if (file := read.text("TIDELINE_UI_TOKEN_FILE")) else None,
            log_level=level,
            addresses=_addresses(read),
            ambient_namespaces=frozenset(read.names(AMBIENT_NAMESPACES)),
        )


def _addresses(read: Variables) -> AddressRules:
    name = "TIDELINE_EGRESS_ALLOWED_RANGES"
    try:
        return AddressRules.of(
            read.text(name),
            own_services=read.switch("TIDELINE_EGRESS_OWN_NAMESPACE_SERVICES", True),
            cluster_domain=_cluster_domain(_RESOLV_CONF),
        )
    except ConfigError as error:
        raise ConfigError(f"{name}: {error.message}", value=error.value) from error


def _cluster_domain(resolv_conf: Path) -> str:
    """The domain of Services, which the kubelet writes into a pod's list of domains to search."""
    try:
        lines = resolv_conf.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return "cluster.local"
    searched = (word for line in lines if line.startswith("search") for word in line.split()[1:])
    found = next((word.removeprefix("svc.") for word in searched if word.startswith("svc.")), "")
    return found.rstrip(".") or "cluster.local"


def _pod_template(read: Variables) -> dict[str, Any]:
    name = "TIDELINE_POD_TEMPLATE"
    return checked_template(read.mapping(name), name)


def _spark_conf(read: Variables) -> dict[str, str]:
    name = "TIDELINE_SPARK_CONF"
    conf = read.mapping(name)
    for key, value in conf.items():
        if not isinstance(value, str):
            raise ConfigError(f"{name}: {key}: must be text, in quotes", value=value)
        if (reason := refused_conf(key)) is not None:
            raise ConfigError(f"{name}: {key} cannot be given here: {reason}")
    return conf
