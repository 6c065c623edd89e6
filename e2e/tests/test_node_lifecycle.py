"""The node that replaces kind: four commands, and nothing left after its deletion.

These tests create their own clusters, in addition to any other. They are left out where kind
provides the cluster.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from e2e.build.versions import kubernetes_folder
from e2e.harness.cluster import ONE_NODE
from e2e.node.node_folder import NodeFolder

NAME = "lifecycle"
GROUP = f"tideline-{NAME}"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: waiting}
spec:
  automountServiceAccountToken: true
  containers: [{name: pause, image: "localhost/pause:3", imagePullPolicy: Never}]
"""


@dataclass(frozen=True)
class Machine:
    """What a node could leave behind on this machine."""

    processes: frozenset[str]
    mounts: frozenset[str]
    interfaces: frozenset[str]
    namespaces: frozenset[str]
    routes: str
    rules: str
    control_groups: frozenset[str]
    folders: frozenset[str]

    @staticmethod
    def look() -> Machine:
        groups = Path("/sys/fs/cgroup").rglob(GROUP)
        state = ("/run", "/var/run", "/var/lib", "/var/log", "/opt", "/etc/cni", "/tmp")
        return Machine(
            processes=frozenset(_node_processes()),
            mounts=frozenset(Path("/proc/self/mounts").read_text().splitlines()),
            interfaces=frozenset(path.name for path in Path("/sys/class/net").iterdir()),
            namespaces=frozenset(_output("ip", "netns", "list").split()),
            routes=_output("ip", "route", "show", "table", "all"),
            rules=_output("iptables-save"),
            control_groups=frozenset(str(path) for path in groups),
            folders=frozenset(
                str(path)
                for folder in state
                for path in Path(folder).glob("*")
                if path.name.startswith(("cni", "containerd", "kubernetes", "kubelet"))
            ),
        )


@pytest.fixture(autouse=True)
def one_node(request: pytest.FixtureRequest) -> None:
    if request.config.option.kind_bin != str(ONE_NODE):
        pytest.skip("kind provides the cluster")


@pytest.fixture
def before() -> Iterator[Machine]:
    command("delete", "cluster", f"--name={NAME}")
    yield Machine.look()
    command("delete", "cluster", f"--name={NAME}")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return tmp_path / "kubeconfig"


def test_a_node_runs_pods_and_leaves_nothing_when_it_is_deleted(
    before: Machine, kubeconfig: Path
) -> None:
    created = command("create", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}")
    assert created.returncode == 0, created.stderr
    assert NAME in command("get", "clusters").stdout.split()
    assert kubeconfig.stat().st_mode & 0o077 == 0
    kubectl(kubeconfig, "apply", "-f", "-", text=POD)
    kubectl(kubeconfig, "wait", "--for=condition=Ready", "pod/waiting", "--timeout=60s")
    assert Machine.look() != before
    deleted = command("delete", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}")
    assert deleted.returncode == 0, deleted.stderr
    assert NAME not in command("get", "clusters").stdout.split()
    assert_nothing_left(before)


@pytest.mark.parametrize("after_s", [0.1, 0.5, 1.5, 4.0])
def test_a_creation_that_is_killed_leaves_nothing_that_deletion_does_not_find(
    before: Machine, kubeconfig: Path, after_s: float
) -> None:
    arguments = ["create", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}"]
    process = subprocess.Popen([str(ONE_NODE), *arguments], stderr=subprocess.DEVNULL)
    time.sleep(after_s)
    process.kill()
    process.wait()
    assert NAME not in command("get", "clusters").stdout.split()
    assert command("delete", "cluster", f"--name={NAME}").returncode == 0
    assert_nothing_left(before)


def test_a_daemon_that_dies_takes_the_node_with_it(before: Machine, kubeconfig: Path) -> None:
    created = command("create", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}")
    assert created.returncode == 0, created.stderr
    os.kill(min(_pids_of("kube-scheduler")), signal.SIGKILL)
    wait_until(lambda: NAME not in command("get", "clusters").stdout.split())
    assert "kube-scheduler ended with -9" in (NodeFolder(NAME).logs / "node.log").read_text()
    again = command("create", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}")
    assert again.returncode == 0, again.stderr
    assert command("delete", "cluster", f"--name={NAME}").returncode == 0
    assert_nothing_left(before)


def test_another_clusters_kubeconfig_is_not_overwritten(before: Machine, kubeconfig: Path) -> None:
    kubeconfig.write_text("current-context: production\n")
    refused = command("create", "cluster", f"--name={NAME}", f"--kubeconfig={kubeconfig}")
    assert refused.returncode == 1
    assert "another cluster's kubeconfig" in refused.stderr
    assert kubeconfig.read_text() == "current-context: production\n"
    assert Machine.look() == before


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(ONE_NODE), *arguments], capture_output=True, text=True)


def kubectl(kubeconfig: Path, *arguments: str, text: str | None = None) -> None:
    program = [f"{kubernetes_folder()}/kubectl", f"--kubeconfig={kubeconfig}"]
    subprocess.run([*program, *arguments], input=text, text=True, check=True)


def assert_nothing_left(before: Machine) -> None:
    # The kernel removes namespaces in the background.
    wait_until(lambda: Machine.look() == before)
    assert Machine.look() == before
    assert not NodeFolder(NAME).path.exists()


def wait_until(holds: object, timeout_s: float = 20.0) -> None:
    deadline_s = time.monotonic() + timeout_s
    while callable(holds) and not holds() and time.monotonic() < deadline_s:
        time.sleep(0.1)


def _node_processes() -> Iterator[str]:
    """Every process of the node, by its control groups and its mount namespace."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            mounts = (path / "mounts").read_text()
            if f"/{GROUP}" in (path / "cgroup").read_text() or f"/nodes/{NAME}/" in mounts:
                yield f"{path.name} {(path / 'comm').read_text().strip()}"
        except OSError:
            continue


def _pids_of(name: str) -> list[int]:
    return [int(line.split()[0]) for line in _node_processes() if line.split()[1] == name]


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
