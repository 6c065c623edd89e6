"""A running cluster, as tests talk to it: objects as plain dictionaries, and kubectl."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import kubernetes
import pytest
import yaml
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError

from e2e.build import debian_packages
from e2e.build.go_tools import build_kube_router
from e2e.node import network_policies
from e2e.node.cluster import audit_log, kill_container, signal_daemon

Manifest = dict[str, Any]

FIELD_MANAGER = "e2e"
ONE_NODE = Path(__file__).resolve().parents[1] / "one-node"
"""The program with kind's commands that needs no Docker."""


_KILLED = 128 + signal.SIGKILL


class Cluster:
    """A running cluster."""

    def __init__(self, name: str, kubeconfig: Path, kubectl: Path, kind: Path) -> None:
        self.name = name
        self.kubeconfig = kubeconfig
        self._kubectl = kubectl
        self._kind = kind
        # Neither function has types.
        connect: Any = kubernetes.config.new_client_from_config
        dynamic: Any = DynamicClient
        known = kubeconfig.with_name("api-resources.json")
        known.unlink(missing_ok=True)
        self._client = dynamic(connect(str(kubeconfig)), cache_file=str(known))

    def apply(self, manifest: Mapping[str, Any]) -> Manifest:
        """Server-side apply. Raises the client's errors as they are."""
        metadata = manifest["metadata"]
        return self._plain(
            self._resource(manifest).server_side_apply(
                body=dict(manifest),
                name=metadata["name"],
                namespace=metadata.get("namespace"),
                field_manager=FIELD_MANAGER,
                force_conflicts=True,
            )
        )

    def apply_all(self, manifests: Iterable[Mapping[str, Any]]) -> None:
        for manifest in manifests:
            self.apply(manifest)

    def get(self, kind: str, name: str, namespace: str | None = None) -> Manifest | None:
        """One object; `kind` is `Kind` or `group/version/Kind`."""
        try:
            return self._plain(self._named(kind).get(name=name, namespace=namespace))
        except NotFoundError:
            return None

    def list(self, kind: str, namespace: str | None = None, *, labels: str = "") -> list[Manifest]:
        options = {"label_selector": labels} if labels else {}
        found = self._plain(self._named(kind).get(namespace=namespace, **options))
        return cast(list[Manifest], found["items"])

    def patch(
        self, kind: str, name: str, namespace: str | None, change: Mapping[str, Any]
    ) -> Manifest:
        """A merge patch."""
        content_type = "application/merge-patch+json"
        return self._plain(
            self._named(kind).patch(
                body=dict(change), name=name, namespace=namespace, content_type=content_type
            )
        )

    def patch_status(self, kind: str, name: str, namespace: str, change: Mapping[str, Any]) -> None:
        """A merge patch of the status subresource."""
        self.kubectl(
            "patch", kind.lower(), name, "-n", namespace, "--subresource=status", "--type=merge",
            f"--patch={json.dumps(change)}",
        )  # fmt: skip

    def delete(self, kind: str, name: str, namespace: str | None = None, **options: Any) -> None:
        """Delete it; nothing happens when it does not exist."""
        try:
            self._named(kind).delete(name=name, namespace=namespace, body=options or None)
        except (NotFoundError, ConflictError):
            return

    def wait_gone(self, kind: str, name: str, namespace: str | None, *, timeout_s: float) -> None:
        self.wait_until(
            lambda: self.get(kind, name, namespace) is None,
            f"{kind} {name} goes",
            timeout_s=timeout_s,
        )

    def wait_until(
        self, holds: Callable[[], object], what: str, *, timeout_s: float, every_s: float = 0.5
    ) -> None:
        """Wait for something to hold. Raises AssertionError with `what` when it does not."""
        deadline_s = time.monotonic() + timeout_s
        while not holds():
            assert time.monotonic() < deadline_s, f"not within {timeout_s:.0f} s: {what}"
            time.sleep(every_s)

    def kubectl(self, *arguments: str, check: bool = True, given: str | None = None) -> str:
        """What kubectl prints, its errors included; `given` is what it reads."""
        done = subprocess.run(
            [str(self._kubectl), f"--kubeconfig={self.kubeconfig}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            input=given,
            text=True,
        )
        assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}"
        return done.stdout

    def load_image(self, image: str) -> None:
        command = [str(self._kind), "load", "docker-image", "--name", self.name, image]
        subprocess.run(command, check=True)

    def kill_containers(self, pod: Mapping[str, Any]) -> None:
        """SIGKILL for everything in a pod's containers, as when a node fails.

        Returns when Kubernetes has noticed. Fails unless they ran and died of this.
        """
        name, found = pod["metadata"]["name"], pod["status"]["containerStatuses"]
        assert all("running" in value["state"] for value in found), f"{name} does not run"
        for item in found:
            self._kill(item["containerID"].partition("://")[2])
        for entry in found:
            self.wait_until(
                partial(self._has_died, pod, entry["containerID"]),
                f"{entry['name']} of {name} dies of SIGKILL",
                timeout_s=30,
                every_s=0.1,
            )

    def _kill(self, container: str) -> None:
        if self._is_one_node:
            kill_container(self.name, container)
            return
        kill = ["tasks", "kill", "--all", "--signal", "SIGKILL", container]
        ctr = ["docker", "exec", f"{self.name}-control-plane", "ctr", "--namespace", "k8s.io"]
        subprocess.run([*ctr, *kill], check=True)

    @contextmanager
    def silent(self, daemon: str) -> Iterator[None]:
        """A daemon of the node that is stopped, and does not answer, until the block ends. Skips
        the test where the node is not ours."""
        if not self._is_one_node:
            pytest.skip("kind's daemons are not stopped from here")
        signal_daemon(self.name, daemon, signal.SIGSTOP)
        try:
            yield
        finally:
            signal_daemon(self.name, daemon, signal.SIGCONT)

    def audit_log(self) -> Path | None:
        """Requests of service accounts to the API server, one JSON object per line; kind has no
        such log."""
        return audit_log(self.name) if self._is_one_node else None

    def start_kubectl(self, *arguments: str) -> subprocess.Popen[str]:
        """A kubectl that keeps running, as `port-forward` does."""
        return subprocess.Popen(
            [str(self._kubectl), f"--kubeconfig={self.kubeconfig}", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @contextmanager
    def forwarded(self, namespace: str, target: str, port: int) -> Iterator[str]:
        """The address of a port of a pod, a Service or a Deployment, as this process reaches it."""
        process, address = self.start_forward(namespace, target, port)
        try:
            yield address
        finally:
            process.terminate()
            process.wait()

    def start_forward(
        self, namespace: str, target: str, port: int
    ) -> tuple[subprocess.Popen[str], str]:
        """The process behind `forwarded`, for as long as the caller wants, and the address."""
        process = self.start_kubectl("port-forward", "-n", namespace, target, f":{port}")
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"127\.0\.0\.1:\d+(?= ->)", line)
        assert found, f"kubectl port-forward: {line}"
        return process, f"http://{found[0]}"

    @contextmanager
    def enforced_policies(self) -> Iterator[None]:
        """NetworkPolicies hold for the length of the block; kind's nodes enforce them anyway."""
        if not self._is_one_node:
            yield
            return
        debian_packages.install(debian_packages.POLICY_PACKAGES)
        with network_policies.enforced(self.name, build_kube_router()):
            yield

    @property
    def _is_one_node(self) -> bool:
        return self._kind.name == ONE_NODE.name

    def _has_died(self, pod: Mapping[str, Any], container: str) -> bool:
        """Whether a container has ended. A pod that is gone was killed before it went."""
        metadata = pod["metadata"]
        found = self.get("Pod", metadata["name"], metadata["namespace"])
        if found is None or found["metadata"]["uid"] != metadata["uid"]:
            return True
        statuses = found["status"].get("containerStatuses", ())
        ends = [item.get(name, {}).get("terminated") for item in statuses
                for name in ("state", "lastState")]  # fmt: skip
        end = next((end for end in ends if end and end.get("containerID") == container), None)
        assert end is None or end["exitCode"] == _KILLED, f"{metadata['name']}: {end}"
        return end is not None

    def _resource(self, manifest: Mapping[str, Any]) -> Any:
        return self._client.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])

    def _named(self, kind: str) -> Any:
        if "/" in kind:
            api_version, _, kind = kind.rpartition("/")
            return self._client.resources.get(api_version=api_version, kind=kind)
        api_version = _API_VERSIONS[kind]
        return self._client.resources.get(api_version=api_version, kind=kind)

    @staticmethod
    def _plain(found: Any) -> Manifest:
        return cast(Manifest, found.to_dict())


_API_VERSIONS = {
    "LakeTable": "tideline.dev/v1alpha1",
    "LakeCatalog": "tideline.dev/v1alpha1",
    "LakeStore": "tideline.dev/v1alpha1",
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "Lease": "coordination.k8s.io/v1",
    "Node": "v1",
    **dict.fromkeys(
        ("Pod", "Namespace", "Secret", "ConfigMap", "Service", "ServiceAccount", "Event"),
        "v1",
    ),
    **dict.fromkeys(
        ("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        "rbac.authorization.k8s.io/v1",
    ),
}


def load_manifests(path: Path) -> list[Manifest]:
    """The objects of a YAML file."""
    return [document for document in yaml.safe_load_all(path.read_text("utf-8")) if document]


def condition(manifest: Mapping[str, Any] | None, kind: str) -> Manifest:
    """A condition of an object's status; an empty one when there is none yet."""
    conditions = (manifest or {}).get("status", {}).get("conditions", [])
    return next((item for item in conditions if item["type"] == kind), {})


def shown(manifest: Mapping[str, Any] | None) -> str:
    """An object for a failure's message."""
    return json.dumps((manifest or {}).get("status"), indent=1)
