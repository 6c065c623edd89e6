"""What was in a namespace, and what the operator reported about it, for the report of a failed
test."""

from __future__ import annotations

from e2e.harness.cluster import Cluster
from e2e.harness.installation import DEPLOYMENT
from e2e.harness.installation import NAMESPACE as OPERATOR_NAMESPACE

_LOG_LINES = "60"


def account(cluster: Cluster, namespace: str) -> str:
    """Tables with their status, pods, events, the logs of all pods and of the operator."""
    here = ["-n", namespace]
    asked = [
        ["get", "pods", "-n", OPERATOR_NAMESPACE],
        ["get", "laketables,lakecatalogs,lakesources,lakestores", *here, "-o", "yaml"],
        ["get", "jobs,pods,configmaps", *here],
        ["get", "events", *here, "--sort-by=.lastTimestamp"],
        *(
            ["logs", *here, pod["metadata"]["name"], "--all-containers", "--tail", _LOG_LINES]
            for pod in cluster.list("Pod", namespace)
        ),
        ["logs", "-n", OPERATOR_NAMESPACE, f"deploy/{DEPLOYMENT}", "--tail", _LOG_LINES],
    ]
    return "\n".join(
        f"$ kubectl {' '.join(words)}\n{cluster.kubectl(*words, check=False)}" for words in asked
    )
