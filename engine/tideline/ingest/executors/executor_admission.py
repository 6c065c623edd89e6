"""Would Kubernetes let this driver's executors in? Asked before Spark starts, and when it failed.

Spark reports an executor that a quota, a limit range or an admission rule refuses as a failure of
its own, some classes deep, after a while. The API server gives the reason at once, in a sentence
that names the quota, what was asked for and what is left, when it is asked to create such a pod as
a dry run: nothing is created, and the right to create pods is all that takes.
"""

from __future__ import annotations

import json
import urllib.error
from pathlib import Path
from typing import Any

from tideline.errors import StorageUnavailableError
from tideline.ingest.executors.kubernetes_account import KubernetesAccount
from tideline.ingest.executors.kubernetes_pods import CONTAINER_NAME, SparkPods, ThisPod

EXECUTORS_REFUSED = "ExecutorsRefused"
"""The `error` of an operation whose executors are not let in."""

_TIMEOUT_S = 10.0
_MIB = 1024 * 1024
_REFUSED = 403


class ExecutorsRefusedError(StorageUnavailableError):
    """The cluster does not let the executors in now; it is safe to retry."""


def check_executors(pods: SparkPods, pod: ThisPod, account: KubernetesAccount) -> None:
    """Return when an executor would be let in, or when that cannot be learned.

    Raises ExecutorsRefusedError with the cluster's reason.
    """
    reason = _refusal(executor_pod(pods), pod, account)
    if reason is not None:
        raise ExecutorsRefusedError(
            f"executors are refused in namespace {pod.namespace}: {reason}; lower "
            "spec.resources.executor, or have the quota raised"
        )


def executor_pod(pods: SparkPods) -> dict[str, Any]:
    """An executor as Spark makes it of the template, as far as admission cares."""
    template = json.loads(Path(pods.executor_template).read_bytes())
    memory = f"{pods.executor_memory_bytes // _MIB}Mi"
    own = {
        "name": CONTAINER_NAME,
        "image": pods.image,
        "resources": {
            "requests": {"cpu": pods.executor_cpu, "memory": memory},
            "limits": {"memory": memory},
        },
    }
    spec = dict(template.get("spec") or {})
    given = spec.get("containers") or [{}]
    containers = [item for item in given if item.get("name", CONTAINER_NAME) != CONTAINER_NAME]
    first: dict[str, Any] = next((item for item in given if item.get("name") == CONTAINER_NAME), {})
    metadata = {
        name: text
        for name, text in (template.get("metadata") or {}).items()
        if name in ("labels", "annotations")
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "generateName": "executor-"},
        "spec": {"restartPolicy": "Never", **spec, "containers": [first | own, *containers]},
    }


def _refusal(manifest: dict[str, Any], pod: ThisPod, account: KubernetesAccount) -> str | None:
    """Why the API server refuses the pod; None when it does not, or gives no answer."""
    url = f"{pod.api_url}/api/v1/namespaces/{pod.namespace}/pods?dryRun=All"
    try:
        account.call("POST", url, manifest, timeout_s=_TIMEOUT_S)
        return None
    except urllib.error.HTTPError as error:
        with error:
            return _reason(error.read()) if error.code == _REFUSED else None
    except (OSError, ValueError):
        return None


def _reason(body: bytes) -> str:
    """The part of a refusal that says why: what comes before names the pod, which was made up."""
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return "the API server says no"
    return message.partition("is forbidden: ")[2] or message
