"""The versions of everything the end-to-end tests run on, and where the cache keeps each."""

from __future__ import annotations

from pathlib import Path

from tideline.cache_directory import cache_directory

KUBERNETES = "1.34.4"
ETCD = "3.6.4"
"""The release that Kubernetes itself requires: go.mod names the one, its requirements the other."""
COREDNS = "1.12.4"
HELM = "3.19.2"
KUBE_ROUTER = "2.1.0"
REGISTRY = "3.1.0"
CRANE = "0.22.1"
COSIGN = "2.6.5"
SYFT = "1.57.1"
ACTIONLINT = "1.7.12"
OPERATOR_VERIFY = "0.9.1"
DEBIAN = "bookworm"
"""What the images are built on, with Python 3.11."""

PREVIOUS_COMMIT = "258ce214957bef0b6d8295d47b96d7660930d972"
"""The version that upgrades start from: once there are releases, the tag of the last one."""


def kubernetes_folder() -> Path:
    """The programs of a cluster: kube-apiserver, etcd, kubelet, kubectl and so on."""
    return cache_directory() / f"kubernetes-{KUBERNETES}" / "bin"


def tools_folder() -> Path:
    """Programs by their plain name, links to the version in use: helm, coredns."""
    return cache_directory() / "bin"


def images_folder() -> Path:
    """Finished images as archives, and buildah's own storage."""
    return cache_directory() / "images"
