"""MinIO in the cluster, reachable from the tests through a forwarded port."""

from __future__ import annotations

import base64
import re
import secrets
import subprocess
from collections.abc import Mapping
from contextlib import suppress

import minio
import urllib3

from e2e.harness.cluster import Cluster, Manifest
from e2e.harness.server_pod import from_secret

NAMESPACE = "storage"
IMAGE = "localhost/tideline-minio:dev"
SECRET_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")

_READY_TIMEOUT_S = 120.0
_LABEL = "app=minio"
_DATA = "/var/lib/tideline-e2e"


def reader_environment(credentials: Mapping[str, str], endpoint: str) -> dict[str, str]:
    """The variables by which readers outside the cluster find a store."""
    return {
        **credentials,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ENDPOINT": endpoint,
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }


class ClusterMinio:
    """One MinIO for all tests; each makes its own buckets."""

    def __init__(self, cluster: Cluster) -> None:
        self.credentials = _known_credentials(cluster) or _new_credentials()
        self.endpoint = f"http://minio.{NAMESPACE}.svc.cluster.local:9000"
        """As pods reach it."""
        self._cluster = cluster
        self._forward: subprocess.Popen[str] | None = None
        self._address = ""

    def start(self) -> None:
        self._cluster.apply_all(_manifests(self.credentials))
        self._wait_until_ready()

    def stop(self) -> None:
        self._end_forward()

    def go_away(self) -> None:
        """Stop the server, without a replacement until `come_back`."""
        self._scale(0)
        self._cluster.wait_until(
            lambda: not self._cluster.list("Pod", NAMESPACE, labels=_LABEL),
            "MinIO ends",
            timeout_s=60,
        )
        self._end_forward()

    def come_back(self) -> None:
        """Start a server on the same data."""
        self._scale(1)
        self._wait_until_ready()

    def requests_refused(self) -> int:
        """How many requests the server has answered with a client error since its start: unknown
        keys, missing objects."""
        url = f"{self.local_endpoint}/minio/v2/metrics/cluster"
        text = urllib3.request("GET", url, timeout=30).data.decode()
        counts = re.findall(r"(?m)^minio_s3_requests_4xx_errors_total{.*?} (\S+)$", text)
        return sum(int(float(count)) for count in counts)

    @property
    def local_endpoint(self) -> str:
        """As this process reaches it."""
        if self._forward is None or self._forward.poll() is not None:
            self._start_forward()
        return self._address

    def client(self) -> minio.Minio:
        key, secret = self.credentials.values()
        return minio.Minio(
            self.local_endpoint.removeprefix("http://"),
            access_key=key,
            secret_key=secret,
            secure=False,
            http_client=urllib3.PoolManager(timeout=30, retries=urllib3.Retry(5, backoff_factor=1)),
        )

    def environment(self) -> Mapping[str, str]:
        """For readers outside the cluster that take their settings from the environment."""
        return reader_environment(self.credentials, self.local_endpoint)

    def iceberg_properties(self) -> dict[str, str]:
        """What PyIceberg needs outside the cluster."""
        key, secret = self.credentials.values()
        return {
            "s3.endpoint": self.local_endpoint,
            "s3.access-key-id": key,
            "s3.secret-access-key": secret,
            "s3.region": "us-east-1",
            "s3.force-virtual-addressing": "false",
        }

    def _scale(self, replicas: int) -> None:
        self._cluster.patch("Deployment", "minio", NAMESPACE, {"spec": {"replicas": replicas}})

    def _wait_until_ready(self) -> None:
        timeout = f"--timeout={_READY_TIMEOUT_S:.0f}s"
        self._cluster.kubectl("rollout", "status", "-n", NAMESPACE, "deploy/minio", timeout)

    def _start_forward(self) -> None:
        self._end_forward()
        self._forward, self._address = self._cluster.start_forward(NAMESPACE, "service/minio", 9000)

    def _end_forward(self) -> None:
        process, self._forward = self._forward, None
        if process is not None:
            process.kill()
            if process.stdout is not None:
                process.stdout.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)


def _new_credentials() -> dict[str, str]:
    values = (f"e2e-{secrets.token_hex(6)}", secrets.token_urlsafe(24))
    return dict(zip(SECRET_KEYS, values, strict=True))


def _known_credentials(cluster: Cluster) -> dict[str, str]:
    """The credentials of a kept cluster: its MinIO still runs with them."""
    secret = cluster.get("Secret", "minio", NAMESPACE) or {}
    data = secret.get("data") or {}
    return {name: base64.b64decode(data[name]).decode() for name in SECRET_KEYS if name in data}


def _manifests(credentials: Mapping[str, str]) -> tuple[Manifest, ...]:
    labels = {"app": "minio"}
    key, secret = credentials
    container = {
        "name": "minio",
        "image": IMAGE,
        "imagePullPolicy": "IfNotPresent",
        "args": ["server", "/data"],
        "env": [
            from_secret("MINIO_ROOT_USER", "minio", key),
            from_secret("MINIO_ROOT_PASSWORD", "minio", secret),
            {"name": "MINIO_BROWSER", "value": "off"},
            {"name": "MINIO_PROMETHEUS_AUTH_TYPE", "value": "public"},
            {"name": "HOME", "value": "/data"},
        ],
        "ports": [{"containerPort": 9000}],
        "readinessProbe": {
            "httpGet": {"path": "/minio/health/cluster", "port": 9000},
            "periodSeconds": 1,
        },
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    pod = {
        "automountServiceAccountToken": False,
        "containers": [container],
        # Root, because it owns a folder of the node: the data outlives the pod there.
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "data", "hostPath": {"path": _DATA, "type": "DirectoryOrCreate"}}],
    }
    named = {"name": "minio", "namespace": NAMESPACE}
    return (
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": named, "stringData": dict(credentials)},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": named,
            "spec": {
                "selector": {"matchLabels": labels},
                "strategy": {"type": "Recreate"},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": named,
            "spec": {"selector": labels, "ports": [{"port": 9000}]},
        },
    )
