"""The files of a node: a folder in the user's cache, deleted with the cluster."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tideline.cache_directory import cache_directory

POD_NETWORK = "10.244.0.0/24"
SERVICE_NETWORK = "10.96.0.0/16"
COVERED_FOLDERS = {"/var/lib": "var-lib", "/var/log": "var-log", "/run": None}
"""Folders of the machine that the node covers with its own; None is one in memory."""
NODES_MAX = 16

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """The files of one cluster's node."""

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"{self.name!r} is not a cluster name: allowed are up to 40 of a-z, 0-9 and -"
            )

    @staticmethod
    def all() -> tuple[NodeFolder, ...]:
        """Every node that left something here, finished or not."""
        folders = sorted(_nodes().iterdir()) if _nodes().exists() else []
        return tuple(NodeFolder(path.name) for path in folders if path.is_dir())

    @property
    def path(self) -> Path:
        return _nodes() / self.name

    @property
    def node_name(self) -> str:
        """Its name as kind would form it."""
        return f"{self.name}-control-plane"

    @property
    def certificates(self) -> Path:
        return self.path / "pki"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's."""
        return self.certificates / "admin.conf"

    @property
    def logs(self) -> Path:
        return self.path / "log"

    @property
    def audit_log(self) -> Path:
        """Requests of service accounts to the API server: one JSON object per line."""
        return self.logs / "audit.log"

    @property
    def loaded(self) -> Path:
        """For each image archive that was loaded, when that was written."""
        return self.path / "loaded"

    @property
    def containerd_socket(self) -> Path:
        return self.path / "containerd.sock"

    @property
    def ready_mark(self) -> Path:
        """Exists when the cluster was created completely."""
        return self.path / "ready"

    @property
    def slot(self) -> int:
        """A number that no other node on this machine has."""
        return int((self.path / "slot").read_text())

    @property
    def host_address(self) -> str:
        """The machine's end of the veth pair."""
        return f"10.99.{self.slot}.1"

    @property
    def node_address(self) -> str:
        """The node's end of the veth pair, where its API server is."""
        return f"10.99.{self.slot}.2"

    @property
    def host_interface(self) -> str:
        return f"tideline-host{self.slot}"

    @property
    def node_interface(self) -> str:
        return f"tideline-node{self.slot}"

    def make(self, slot: int) -> None:
        for path in (self.certificates, self.logs, self.loaded):
            path.mkdir(parents=True, exist_ok=True)
        for name in ("etcd", "cni", "config", "kubelet", "var-lib", "var-log", "tmp"):
            (self.path / name).mkdir(parents=True, exist_ok=True)
        self.path.chmod(0o700)
        (self.path / "slot").write_text(str(slot))


def _nodes() -> Path:
    return cache_directory() / "nodes"
