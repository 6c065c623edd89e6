"""NetworkPolicies enforced on a node: kube-router's firewall and nothing else of it.

A node without it ignores them. It needs iptables and ipset. When the block ends the rules are gone.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from e2e.node.cluster import first_process
from e2e.node.node_folder import SERVICE_NETWORK, NodeFolder

_CHAIN = "KUBE-ROUTER-FORWARD"
_READY_TIMEOUT_S = 60.0


@contextmanager
def enforced(cluster: str, kube_router: Path) -> Iterator[None]:
    """Policies hold for the length of a block. Raises TimeoutError when no rules appear."""
    folder = NodeFolder(cluster)
    inside = ["nsenter", f"--target={first_process(cluster)}", "--mount", "--net"]
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    with (folder.logs / "kube-router.log").open("wb") as log:
        process = subprocess.Popen(
            [*inside, str(kube_router), *_settings(folder)],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for_rules(inside, process, environment)
        yield
    finally:
        process.terminate()
        process.wait()
        subprocess.run(
            [*inside, str(kube_router), "--cleanup-config"], env=environment, capture_output=True
        )


def _settings(folder: NodeFolder) -> list[str]:
    return [
        "--run-firewall=true",
        "--run-router=false",
        "--run-service-proxy=false",
        "--enable-cni=false",
        f"--kubeconfig={folder.kubeconfig}",
        f"--hostname-override={folder.node_name}",
        f"--service-cluster-ip-range={SERVICE_NETWORK}",
        "--iptables-sync-period=5s",
        "--health-port=0",
        "--metrics-port=0",
    ]


def _wait_for_rules(
    inside: list[str], process: subprocess.Popen[bytes], environment: Mapping[str, str]
) -> None:
    deadline_s = time.monotonic() + _READY_TIMEOUT_S
    command = [*inside, "iptables", "-S", _CHAIN]
    while subprocess.run(command, env=environment, capture_output=True).returncode:
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise TimeoutError("kube-router made no rules: see kube-router.log")
        time.sleep(0.2)
