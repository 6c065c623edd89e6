"""The Helm chart: what it renders, which values it takes, whether committed files are current."""

from __future__ import annotations

import json
import os
import re
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from tideline.distribution import installed_version
from tideline_operator.controller.controller_metrics import ControllerMetrics, ProcessMetrics
from tideline_operator.controller.namespace_usage import HourlyLimits
from tideline_operator.controller.settings import ControllerSettings
from tideline_operator.reading.starting import AMBIENT_NAMESPACES, limits_of, reader_environment
from tideline_operator.testing.helm_chart import (
    COMMITTED,
    ChartRefusedError,
    helm_program,
    install_files,
    lint,
    rendered,
)
from tideline_operator.testing.manifests import manifests_in

# `make test` does not build Helm.
pytestmark = pytest.mark.slow
CHART = Path(__file__).resolve().parents[3] / "charts" / "tideline"
DIGEST = f"sha256:{'ab' * 32}"


@pytest.fixture(autouse=True)
def helm() -> None:
    if helm_program() is None:
        reason = "helm is not built; run: python -m e2e.build tools"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def objects(values: dict[str, Any] | None = None) -> dict[tuple[str, str, str], dict[str, Any]]:
    """What the chart renders, by kind, namespace and name."""
    return {
        (item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item
        for item in manifests_in(rendered(CHART, values))
    }


def of_kind(kind: str, values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    return [item for (found, _, _), item in objects(values).items() if found == kind]


def pod(values: dict[str, Any] | None = None) -> dict[str, Any]:
    (deployment,) = of_kind("Deployment", values)
    return dict(deployment["spec"]["template"]["spec"])


def container(values: dict[str, Any] | None = None, name: str = "operator") -> dict[str, Any]:
    (found,) = (item for item in pod(values)["containers"] if item["name"] == name)
    return dict(found)


def environment(values: dict[str, Any] | None = None, name: str = "operator") -> dict[str, str]:
    given = container(values, name)["env"]
    return {item["name"]: item["value"] for item in given if "value" in item}


def test_the_committed_manifests_are_what_the_chart_renders() -> None:
    rendered_now = install_files(CHART)[COMMITTED]
    assert (CHART / COMMITTED).read_text("utf-8") == rendered_now, "run `make install-yaml`"


def test_a_release_has_both_halves_in_one_file() -> None:
    files = install_files(CHART)
    halves = manifests_in(files["crds.yaml"]) + manifests_in(files["operator.yaml"])
    assert manifests_in(files["install.yaml"]) == halves


def test_helm_finds_nothing_to_complain_about() -> None:
    assert "0 chart(s) failed" in lint(CHART)


def test_what_is_installed_without_helm_is_complete() -> None:
    names = {(item["kind"], item["metadata"]["name"]) for item in manifests_in(
        install_files(CHART)["install.yaml"]
    )}  # fmt: skip
    assert names == {
        ("CustomResourceDefinition", "laketables.tideline.dev"),
        ("CustomResourceDefinition", "lakecatalogs.tideline.dev"),
        ("CustomResourceDefinition", "lakesources.tideline.dev"),
        ("CustomResourceDefinition", "lakestores.tideline.dev"),
        ("Namespace", "tideline-system"),
        ("NetworkPolicy", "tideline-operator"),
        ("ServiceAccount", "tideline-operator"),
        ("ClusterRole", "tideline-operator"),
        ("ClusterRole", "tideline-engine"),
        ("ClusterRole", "tideline-view"),
        ("ClusterRole", "tideline-edit"),
        ("ClusterRole", "tideline-admin"),
        ("ClusterRole", "tideline-namespace"),
        ("ClusterRoleBinding", "tideline-operator"),
        ("Role", "tideline-operator-lease"),
        ("RoleBinding", "tideline-operator-lease"),
        ("Deployment", "tideline-operator"),
    }


def test_every_role_names_its_verbs_and_resources() -> None:
    for item in [*of_kind("ClusterRole"), *of_kind("Role")]:
        assert "*" not in json.dumps(item["rules"]), item["metadata"]["name"]


def test_the_pod_meets_the_restricted_standard() -> None:
    (deployment,) = of_kind("Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container()["resources"]["limits"]["memory"]


def test_images_are_named_by_registry_tag_or_digest() -> None:
    assert container()["image"] == f"tideline-operator:{installed_version()}"
    mine = {"registry": "registry.example:5000/lake", "tag": "dev"}
    values = {"image": mine, "engine": {"image": {**mine, "digest": DIGEST}}}
    assert container(values)["image"] == "registry.example:5000/lake/tideline-operator:dev"
    engine = environment(values)["TIDELINE_ENGINE_IMAGE"]
    assert engine == f"registry.example:5000/lake/tideline-engine@{DIGEST}"


def test_values_become_the_operators_settings() -> None:
    assert environment() == {
        "TIDELINE_ENGINE_IMAGE": f"tideline-engine:{installed_version()}",
        "TIDELINE_ENGINE_PULL_POLICY": "IfNotPresent",
        "TIDELINE_NAMESPACES": "",
        "TIDELINE_OPERATIONS_MAX": "4",
        "TIDELINE_OPERATIONS_PER_NAMESPACE_MAX": "",
        "TIDELINE_MEMORY_MAX": "",
        "TIDELINE_MEMORY_PER_NAMESPACE_MAX": "",
        "TIDELINE_OPERATION_DEADLINE": "24h",
        "TIDELINE_METADATA_BYTES_MAX": "32Mi",
        "TIDELINE_EGRESS_ALLOWED_RANGES": "",
        "TIDELINE_EGRESS_OWN_NAMESPACE_SERVICES": "true",
        "TIDELINE_AMBIENT_IDENTITY_NAMESPACES": "",
        "TIDELINE_WORKERS": "4",
        "TIDELINE_RESYNC": "5m",
        "TIDELINE_READER_SOCKET": "/run/tideline/reader.sock",
        "TIDELINE_READER_DEADLINE": "2m",
    }
    changed = environment(
        {
            "namespaces": ["lake", "sea"],
            "limits": {
                "operations": 9,
                "operationsPerNamespace": 3,
                "memory": "64Gi",
                "memoryPerNamespace": "16Gi",
                "operationTime": "6h",
                "metadata": "32Mi",
            },
            "workers": 2,
            "resync": "90s",
            "extraEnv": [{"name": "TIDELINE_DEBUG", "value": "1"}],
        }
    )
    assert changed["TIDELINE_NAMESPACES"] == "lake,sea"
    assert (changed["TIDELINE_OPERATIONS_MAX"], changed["TIDELINE_MEMORY_MAX"]) == ("9", "64Gi")
    assert changed["TIDELINE_OPERATIONS_PER_NAMESPACE_MAX"] == "3"
    assert changed["TIDELINE_MEMORY_PER_NAMESPACE_MAX"] == "16Gi"
    assert changed["TIDELINE_OPERATION_DEADLINE"] == "6h"
    assert changed["TIDELINE_METADATA_BYTES_MAX"] == "32Mi"
    assert (changed["TIDELINE_WORKERS"], changed["TIDELINE_RESYNC"]) == ("2", "90s")
    assert changed["TIDELINE_DEBUG"] == "1"


def test_where_the_operator_connects_to_and_as_whom_reaches_the_operator() -> None:
    values = {
        "egress": {"allowedRanges": ["10.96.0.0/12", "fd12::/64"], "ownNamespaceServices": False},
        "ambientIdentity": {"namespaces": ["lake", "sea"]},
    }
    settings = ControllerSettings.from_environment(environment(values))
    assert settings.addresses.opened == (ip_network("10.96.0.0/12"), ip_network("fd12::/64"))
    assert not settings.addresses.own_services
    assert settings.ambient_namespaces == {"lake", "sea"}
    default = ControllerSettings.from_environment(environment())
    assert default.addresses.opened == ()
    assert default.addresses.own_services
    assert not default.ambient_namespaces
    for wrong in (
        {"egress": {"allowedRanges": ["lake"]}},
        {"egress": {"ownNamespaceServices": "yes"}},
        {"ambientIdentity": {"namespaces": ["*"]}},
    ):
        with pytest.raises(ChartRefusedError):
            environment(wrong)
    to = [{"ipBlock": {"cidr": "203.0.113.0/24"}}]
    (policy,) = of_kind("NetworkPolicy", {"networkPolicy": {"egressTo": to}})
    assert policy["spec"]["egress"][1]["to"] == to


def test_what_a_namespace_may_take_in_an_hour_reaches_the_operator() -> None:
    hourly = {"podSeconds": 36_000, "gibSeconds": 7_200_000, "bytes": "2Ti", "requests": 50_000_000}
    settings = ControllerSettings.from_environment(
        environment({"limits": {"namespaceHourly": hourly}})
    )
    assert settings.hourly == HourlyLimits(36_000, 7_200_000, 2 * 1024**4, 50_000_000)
    assert ControllerSettings.from_environment(environment()).hourly == HourlyLimits()


def test_defaults_for_pods_reach_the_operator() -> None:
    template = {"metadata": {"labels": {"team": "platform"}}, "spec": {"nodeSelector": {"a": "b"}}}
    conf = {"spark.task.maxFailures": "2"}
    changed = environment({"engine": {"podTemplate": template, "sparkConf": conf}})
    settings = ControllerSettings.from_environment(changed)
    assert settings.launch.pod_template == template
    assert settings.launch.spark_conf == conf


def test_with_namespaces_the_operator_has_rights_there_only() -> None:
    found = objects({"namespaces": ["lake", "sea"]})
    assert not [key for key in found if key[0] == "ClusterRoleBinding"]
    for namespace in ("lake", "sea"):
        for role in ("tideline-operator", "tideline-namespace"):
            assert found["RoleBinding", namespace, role]["roleRef"] == {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": role,
            }
        assert ("NetworkPolicy", namespace, "tideline-engine") in found


def test_without_namespaces_nothing_lets_the_operator_into_any() -> None:
    bindings = [*of_kind("ClusterRoleBinding"), *of_kind("RoleBinding")]
    roles = {binding["roleRef"]["name"] for binding in bindings}
    assert roles == {"tideline-operator", "tideline-operator-lease"}


def test_a_disruption_budget_needs_a_second_replica() -> None:
    assert not of_kind("PodDisruptionBudget")
    (budget,) = of_kind("PodDisruptionBudget", {"replicas": 2})
    assert budget["spec"]["maxUnavailable"] == 1


def test_what_needs_other_projects_definitions_is_off_until_asked_for() -> None:
    switches = ("podMonitor", "serviceMonitor", "prometheusRule", "dashboard")
    extra = objects({name: {"enabled": True} for name in switches}).keys() - objects().keys()
    assert {kind for kind, _, _ in extra} == {
        "ConfigMap",
        "PodMonitor",
        "PrometheusRule",
        "Service",
        "ServiceMonitor",
    }


def test_a_service_monitor_finds_the_service_that_finds_the_operator() -> None:
    values = {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}}}
    (service,), (monitor,) = of_kind("Service", values), of_kind("ServiceMonitor", values)
    wanted = monitor["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= service["metadata"]["labels"].items()
    (deployment,) = of_kind("Deployment", values)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (port,), (endpoint,) = service["spec"]["ports"], monitor["spec"]["endpoints"]
    assert endpoint["port"] == port["name"]
    assert port["targetPort"] in {item["name"] for item in container(values)["ports"]}
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    # That of the pages is not taken for it.
    pages = values | {"ui": {"enabled": True, "tokenSecret": "pages"}}
    found = [item for item in of_kind("Service", pages)
             if wanted.items() <= item["metadata"]["labels"].items()]  # fmt: skip
    assert [item["metadata"]["name"] for item in found] == ["tideline-metrics"]


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [
        ("http://collector.monitoring:4318", 4318),
        ("https://collector.example", None),
        ("http://[fd12::1]:4318/otlp", 4318),
    ],
)
def test_a_collector_of_traces_reaches_the_operator_and_its_pods(
    endpoint: str, port: int | None
) -> None:
    values = {"tracing": {"endpoint": endpoint}, "namespaces": ["lake"]}
    settings = ControllerSettings.from_environment(environment(values))
    assert settings.launch.tracing == {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}
    assert not ControllerSettings.from_environment(environment()).launch.tracing
    for policy in of_kind("NetworkPolicy", values):
        opened = {item["port"] for rule in policy["spec"]["egress"] for item in rule["ports"]}
        assert (4318 in opened) == (port is not None), policy["metadata"]["name"]


def test_a_collector_is_an_address() -> None:
    with pytest.raises(ChartRefusedError):
        environment({"tracing": {"endpoint": "collector:4318"}})


def test_metrics_can_be_kept_to_some_readers() -> None:
    reader = {"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}
    (policy,) = of_kind("NetworkPolicy", {"networkPolicy": {"metricsFrom": [reader]}})
    by_port = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["spec"]["ingress"]}
    assert by_port == {8081: None, 8080: [reader]}


def test_pages_are_served_when_asked_for_and_to_whom() -> None:
    assert not of_kind("Service")
    assert "TIDELINE_UI_PORT" not in environment()
    local: dict[str, Any] = {"ui": {"enabled": True}}
    assert not of_kind("Service", local)
    assert environment(local)["TIDELINE_UI_PORT"] == "8082"
    assert "TIDELINE_UI_TOKEN_FILE" not in environment(local)
    assert "ui" not in {item["name"] for item in container(local)["ports"]}
    values: dict[str, Any] = {"ui": {"enabled": True, "tokenSecret": "pages"}}
    (service,) = of_kind("Service", values)
    (port,) = service["spec"]["ports"]
    served = {item["name"]: item["containerPort"] for item in container(values)["ports"]}
    assert served[port["targetPort"]] == int(environment(values)["TIDELINE_UI_PORT"])
    (closed,) = of_kind("NetworkPolicy", values)
    assert len(closed["spec"]["ingress"]) == 2
    reader = {"namespaceSelector": {"matchLabels": {"name": "people"}}}
    (policy,) = of_kind("NetworkPolicy", {"ui": {**values["ui"], "from": [reader]}})
    by_port = {rule["ports"][0]["port"]: rule.get("from") for rule in policy["spec"]["ingress"]}
    assert by_port[served["ui"]] == [reader]
    with pytest.raises(ChartRefusedError, match="tokenSecret"):
        rendered(CHART, {"ui": {"enabled": True, "from": [reader]}})
    file = Path(environment(values)["TIDELINE_UI_TOKEN_FILE"])
    (mount,) = [
        volume_mount
        for volume_mount in container(values)["volumeMounts"]
        if volume_mount["name"] == "ui-token"
    ]
    assert (Path(mount["mountPath"]), mount["readOnly"]) == (file.parent, True)
    pod = of_kind("Deployment", values)[0]["spec"]["template"]["spec"]
    (volume,) = [item for item in pod["volumes"] if item["name"] == "ui-token"]
    assert volume["secret"] == {
        "secretName": "pages",
        "items": [{"key": "token", "path": file.name}],
    }


def test_the_operator_gets_no_variables_that_it_does_not_need() -> None:
    (deployment,) = of_kind("Deployment")
    assert deployment["spec"]["template"]["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"replica": 2}, "replica"),
        ({"replicas": "two"}, "replicas"),
        ({"image": {"digest": "latest"}}, "digest"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"namespaces": ["Lake"]}, "namespaces"),
        ({"limits": {"memory": "64GB"}}, "memory"),
        ({"resync": "often"}, "resync"),
        ({"networkPolicy": {"egressPorts": ["https"]}}, "egressPorts"),
    ],
)
def test_wrong_values_are_refused_by_name(values: dict[str, Any], field: str) -> None:
    with pytest.raises(ChartRefusedError) as refused:
        rendered(CHART, values)
    assert field in str(refused.value)


def test_alerts_and_dashboard_ask_for_metrics_that_exist() -> None:
    process = ProcessMetrics()
    ControllerMetrics(process)
    known = set(re.findall(r"^# HELP (\S+)", process.text(), re.MULTILINE))
    names = r"(?:tideline|process)_[a-z_]+"
    for source in ("files/dashboard.json", "templates/prometheus-rule.yaml"):
        asked = set(re.findall(rf"\b({names})\b", (CHART / source).read_text("utf-8")))
        assert asked
        assert {name.removesuffix("_bucket") for name in asked} <= known, source


def test_only_the_operators_container_has_the_api_token() -> None:
    spec = pod()
    assert spec["automountServiceAccountToken"] is False
    tokens = {
        volume["name"]
        for volume in spec["volumes"]
        for source in volume.get("projected", {}).get("sources", ())
        if "serviceAccountToken" in source
    }
    mounted = {
        item["name"]: {
            mount["mountPath"] for mount in item["volumeMounts"] if mount["name"] in tokens
        }
        for item in spec["containers"]
    }
    place = "/var/run/secrets/kubernetes.io/serviceaccount"
    assert mounted == {"operator": {place}, "reader": set()}


def test_the_reader_shares_a_socket_with_the_operator_and_nothing_else() -> None:
    spec, reader, operator = pod(), container(name="reader"), container()
    shared = {volume_mount["name"] for volume_mount in reader["volumeMounts"]}
    assert shared == {"reader"}
    (volume,) = (item for item in spec["volumes"] if item["name"] == "reader")
    assert volume["emptyDir"]["medium"] == "Memory"
    socket = reader["command"][-1]
    assert environment()["TIDELINE_READER_SOCKET"] == socket
    assert socket.startswith(f"{reader['volumeMounts'][0]['mountPath']}/")
    user = reader["securityContext"]["runAsUser"]
    assert user != spec["securityContext"]["runAsUser"]
    assert environment(name="reader")["TIDELINE_READER_CLIENT_UID"] == str(
        spec["securityContext"]["runAsUser"]
    )
    assert reader["securityContext"]["readOnlyRootFilesystem"] is True
    assert reader["securityContext"]["allowPrivilegeEscalation"] is False
    assert reader["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert reader["image"] == operator["image"]


def test_every_variable_of_the_reader_is_one_that_it_takes() -> None:
    values = {"reader": {"memoryPerNamespace": "1Gi", "processes": 7, "deadline": "90s"}}
    given = environment(values, "reader")
    limits = limits_of({**given, "TIDELINE_READER_MEMORY_TOTAL": "1073741824"})
    assert limits.memory_bytes == 1024**3
    assert (limits.processes_max, limits.client_uid) == (7, 10001)
    names = {item["name"] for item in container(values, "reader")["env"]}
    # What decides about the others is not passed on itself.
    passed_on = set(reader_environment(dict.fromkeys(names, "1")))
    assert passed_on >= names - {AMBIENT_NAMESPACES}
    settings = ControllerSettings.from_environment(environment(values))
    assert settings.reader_deadline_s == 90.0
    assert str(settings.reader_socket) == "/run/tideline/reader.sock"
    with pytest.raises(ChartRefusedError):
        rendered(CHART, {"reader": {"memoryPerNamespace": "much"}})


def test_extra_variables_of_the_operator_do_not_reach_the_reader() -> None:
    values = {"extraEnv": [{"name": "AWS_SECRET_ACCESS_KEY", "value": "secret"}]}
    assert "AWS_SECRET_ACCESS_KEY" in environment(values)
    assert "AWS_SECRET_ACCESS_KEY" not in environment(values, "reader")
