"""Manifests as people apply them: a stream of YAML, each object into its place."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from tideline_operator.kube import ApiResource, KubeApi, Manifest

_CLUSTER_WIDE = ("Namespace", "ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition")


def manifests_in(text: str) -> list[Manifest]:
    """The objects of a YAML stream, read by libyaml: definitions are long."""
    return [item for item in yaml.load_all(text, yaml.CSafeLoader) if item]


def resource_of(manifest: Manifest) -> ApiResource:
    """Where the API server keeps objects of this kind."""
    kind = manifest["kind"]
    group, _, version = manifest["apiVersion"].rpartition("/")
    lowered = kind.lower()
    plural = f"{lowered[:-1]}ies" if lowered.endswith("y") else f"{lowered}s"
    return ApiResource(group, version, plural, kind, is_namespaced=kind not in _CLUSTER_WIDE)


def apply_all(api: KubeApi, manifests: Iterable[Manifest], namespace: str | None = None) -> None:
    """Apply objects in their order; those that name no namespace go into `namespace`."""
    for manifest in manifests:
        place = manifest["metadata"].get("namespace", namespace)
        api.apply(resource_of(manifest), manifest, place)
