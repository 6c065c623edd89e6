"""A spec that is edited while its table works: the status follows, and a refused one is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tideline_operator.api_objects import LAKE_TABLES, ApiRefusedError, ApiResource, Manifest
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.simulated_cluster import CarryingOut

pytestmark = pytest.mark.api_server

POLICIES = ApiResource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy"
)
BINDINGS = ApiResource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
)


@pytest.fixture
def case(api_server: ApiServer, namespace: str, tmp_path: Path) -> Iterator[ControllerCase]:
    with ControllerCase(api_server, namespace, tmp_path) as case:
        yield case


@pytest.mark.parametrize(
    "edit",
    [
        {"services": {"mode": "Off"}},
        {"services": {"cleaning": {"enabled": False}}},
        {"services": {"archiving": {"enabled": False}}},
        {"services": {"clustering": {"enabled": False}, "compaction": {"enabled": False}}},
    ],
    ids=["all", "cleaning", "archiving", "others"],
)
def test_a_service_that_is_switched_off_does_not_stop_the_table(
    case: ControllerCase, edit: dict[str, Any]
) -> None:
    case.declare(services={"mode": "Auto"})
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        case.until(lambda: reasons(case)["cleaning"], "cleaning has a reason")
        case.change("people", {"spec": edit})
        case.until_ready()
        case.land("a.parquet", "b.parquet")
        case.until(lambda: commits(case) >= 1, "files are ingested")
        case.change("people", {"spec": {"services": {"mode": "Auto", **enabled(edit)}}})
        case.until_ready()
        case.until(lambda: reasons(case)["cleaning"], "the reasons are back")
    assert case.measured("tideline_reconciles_total", result="refused") == 0
    assert case.measured("tideline_reconciles_total", result="error") == 0


def test_a_spec_that_becomes_emptier_is_kept_as_it_is(case: ControllerCase) -> None:
    case.declare(services={"mode": "Auto", "cleaning": {"enabled": False}})
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        case.change("people", {"spec": {"services": {"mode": None, "cleaning": {"enabled": None}}}})
        case.until_ready()
    table = case.table()
    assert table["status"]["lastValidSpec"] == table["spec"]


def test_a_status_that_is_refused_is_a_condition_an_event_and_a_metric(
    case: ControllerCase,
) -> None:
    case.declare()
    case.start()
    with CarryingOut(case.cluster):
        case.until_ready()
        refuse_newer_generations(case)
        try:
            case.declare("probe", suspend=True)
            case.until(lambda: is_refused(case, "probe"), "the policy is in force")
            case.change("people", {"spec": {"services": {"mode": "Off"}}})
            case.until(
                lambda: case.condition("Ready").get("reason") == "ReconcileFailed", "the condition"
            )
            ready = case.condition("Ready")
            assert ready["status"] == "False"
            assert "not newer" in ready["message"]
            assert {condition["type"] for condition in case.status()["conditions"]} >= {
                "Healthy",
                "SpecValid",
            }
            assert case.operations(), "what is recorded stays"
            case.until_event("ReconcileFailed")
            labels = f'{{namespace="{case.namespace}",table="people"}}'
            assert f"tideline_table_ready{labels} 0" in case.metrics.text()
            assert case.measured("tideline_reconciles_total", result="refused") >= 2
        finally:
            case.api.delete(BINDINGS, case.namespace)
            case.api.delete(POLICIES, case.namespace)
        case.until_ready()


def reasons(case: ControllerCase) -> dict[str, str]:
    services = case.status().get("services") or {}
    return {"cleaning": "", **{name: item.get("reason", "") for name, item in services.items()}}


def commits(case: ControllerCase) -> int:
    return int((case.status().get("timeline") or {}).get("completed") or 0)


def enabled(edit: dict[str, Any]) -> dict[str, Any]:
    """The edit that takes `edit` back."""
    return {name: {"enabled": None} for name, item in edit["services"].items() if name != "mode"}


def refuse_newer_generations(case: ControllerCase) -> None:
    """The API server refuses each status of the namespace that is about a newer spec."""
    policy: Manifest = {
        "apiVersion": POLICIES.api_version,
        "kind": POLICIES.kind,
        "metadata": {"name": case.namespace},
        "spec": {
            "matchConstraints": {
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": case.namespace}
                },
                "resourceRules": [
                    {
                        "apiGroups": ["tideline.dev"],
                        "apiVersions": ["*"],
                        "resources": ["laketables/status"],
                        "operations": ["UPDATE"],
                    }
                ],
            },
            "validations": [
                {
                    "expression": "object.status.observedGeneration"
                    " == oldObject.status.observedGeneration",
                    "message": "not newer",
                }
            ],
        },
    }
    binding: Manifest = {
        "apiVersion": BINDINGS.api_version,
        "kind": BINDINGS.kind,
        "metadata": {"name": case.namespace},
        "spec": {"policyName": case.namespace, "validationActions": ["Deny"]},
    }
    case.api.apply(POLICIES, policy)
    case.api.apply(BINDINGS, binding)


def is_refused(case: ControllerCase, name: str) -> bool:
    """Whether a status about another generation is refused by now."""
    before = int(case.status(name).get("observedGeneration") or 0)
    try:
        case.api.patch(
            LAKE_TABLES,
            name,
            {"status": {"observedGeneration": before + 1}},
            case.namespace,
            subresource="status",
        )
    except ApiRefusedError:
        return True
    return False
