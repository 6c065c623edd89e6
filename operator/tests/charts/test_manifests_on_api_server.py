"""What people apply, on a real API server: the chart's manifests, and the example."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from tideline_operator.kube import NAMESPACES, PODS, ApiRefusedError, KubeApi, Manifest
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.manifests import apply_all, manifests_in, resource_of

pytestmark = pytest.mark.api_server

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "charts" / "tideline"
INSTALL = (*sorted((CHART / "crds").iterdir()), CHART / "operator.yaml")
EXAMPLE = ROOT / "examples" / "kubernetes"


def example() -> list[Manifest]:
    """What `kubectl apply -k` would apply, but for the Secret that people make themselves."""
    (kustomization,) = manifests_in((EXAMPLE / "kustomization.yaml").read_text("utf-8"))
    texts = [(EXAMPLE / name).read_text("utf-8") for name in kustomization["resources"]]
    return [item for text in texts for item in manifests_in(text)]


def installation() -> list[Manifest]:
    return [item for path in INSTALL for item in manifests_in(path.read_text("utf-8"))]


def deployments() -> dict[str, Manifest]:
    found = [item for item in [*example(), *installation()] if item["kind"] == "Deployment"]
    return {item["metadata"]["name"]: item for item in found}


@pytest.fixture
def api(api_server: ApiServer) -> KubeApi:
    return api_server.api()


@pytest.fixture
def restricted(api: KubeApi) -> str:
    """A namespace that takes only pods of the restricted Pod Security Standard."""
    name = f"restricted-{secrets.token_hex(4)}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = {"name": name, "labels": labels}
    api.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return name


def test_the_installation_applies_and_applies_again(api: KubeApi) -> None:
    apply_all(api, installation())
    before = [stored(api, item)["metadata"]["generation"] for item in with_generation()]
    apply_all(api, installation())
    assert [stored(api, item)["metadata"]["generation"] for item in with_generation()] == before


def with_generation() -> list[Manifest]:
    kinds = ("Deployment", "CustomResourceDefinition", "NetworkPolicy")
    return [item for item in installation() if item["kind"] in kinds]


def stored(api: KubeApi, item: Manifest) -> Manifest:
    metadata = item["metadata"]
    found = api.get(resource_of(item), metadata["name"], metadata.get("namespace"))
    assert found is not None
    return found


def test_no_field_of_the_installation_is_unknown_to_the_server(api_server: ApiServer) -> None:
    for item in [*installation(), *example()]:
        metadata = item["metadata"]
        path = resource_of(item).path(metadata.get("namespace", "default"), metadata["name"])
        answer = api_server.request(
            "PATCH",
            f"{path}?fieldManager=strict&fieldValidation=Strict&dryRun=All&force=true",
            item,
            content_type="application/apply-patch+yaml",
        )
        # A namespace of a dry run is not there for what comes after it.
        assert answer.status in (200, 201) or "not found" in answer.message, answer.content


def test_the_example_applies(api: KubeApi) -> None:
    apply_all(api, example(), "lake")
    for item in example():
        namespace = None if item["kind"] == "Namespace" else "lake"
        assert api.get(resource_of(item), item["metadata"]["name"], namespace) is not None


@pytest.mark.parametrize("name", sorted(deployments()))
def test_its_pods_are_admitted_under_the_restricted_standard(
    api: KubeApi, restricted: str, name: str
) -> None:
    template = deployments()[name]["spec"]["template"]
    pod = {**pod_of(template["spec"]), "metadata": {"name": name}}
    api.create(PODS, pod, restricted)


def test_a_pod_that_asks_for_more_is_not(api: KubeApi, restricted: str) -> None:
    container = {"name": "shell", "image": "shell"}
    with pytest.raises(ApiRefusedError, match="violates PodSecurity"):
        api.create(PODS, pod_of({"containers": [container]}), restricted)


def pod_of(spec: Manifest) -> Manifest:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, "spec": spec}
