"""The first process of a node, in its own namespaces: it starts the daemons and reaps orphans.

    unshare --mount --net --pid --fork --kill-child --mount-proc \\
        python -m e2e.node.first_process NAME

The namespaces make the end clean. When this process dies, the kernel kills everything in its
process namespace, containers included, and then removes all mounts, interfaces, addresses and
firewall rules that they created.

1. Folders of the machine that daemons would write to are covered with the node's own.
2. Wait for the veth pair's end, give it its address.
3. Start etcd, containerd and the API server, wait until it is ready, start the rest.
4. Reap orphans. When a daemon ends, the node ends: half a cluster would only confuse tests.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress

from e2e.build.versions import kubernetes_folder, tools_folder
from e2e.node.daemons import Daemon, daemons
from e2e.node.network import configure_node_end
from e2e.node.node_folder import COVERED_FOLDERS, NodeFolder

_API_TIMEOUT_S = 120.0
_INTERFACE_TIMEOUT_S = 30.0


def main() -> int:
    folder = NodeFolder(sys.argv[1])
    _cover_folders(folder)
    _wait_for_interface(folder.node_interface)
    configure_node_end(folder)
    running: dict[int, Daemon] = {}
    planned = daemons(folder, kubernetes_folder(), tools_folder() / "coredns")
    for daemon in (daemon for daemon in planned if not daemon.needs_api):
        running[_start(folder, daemon)] = daemon
    _wait_for_api(folder)
    for daemon in (daemon for daemon in planned if daemon.needs_api):
        running[_start(folder, daemon)] = daemon
    return _bury(running)


def _cover_folders(folder: NodeFolder) -> None:
    """Sockets, locks, network and log files of the node instead of the machine's."""
    for covered, name in COVERED_FOLDERS.items():
        if name is None:
            _run("mount", "-t", "tmpfs", "tmpfs", covered)
        else:
            _run("mount", "--bind", str(folder.path / name), covered)
    # The kubelet shares mounts with containers; unshare made everything private.
    _run("mount", "--make-rshared", "/")


def _wait_for_interface(name: str) -> None:
    deadline_s = time.monotonic() + _INTERFACE_TIMEOUT_S
    while subprocess.run(["ip", "link", "show", name], capture_output=True).returncode:
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"this node got no interface {name}")
        time.sleep(0.05)


def _start(folder: NodeFolder, daemon: Daemon) -> int:
    environment = {
        "HOME": str(folder.path / "tmp"),
        "PATH": os.environ["PATH"],
        "TMPDIR": str(folder.path / "tmp"),
    }
    with (folder.logs / f"{daemon.name}.log").open("wb") as log:
        process = subprocess.Popen(
            daemon.command,
            cwd=folder.path / "tmp",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    return process.pid


def _wait_for_api(folder: NodeFolder) -> None:
    pki = folder.certificates
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.load_cert_chain(pki / "admin.crt", pki / "admin.key")
    deadline_s = time.monotonic() + _API_TIMEOUT_S
    while time.monotonic() < deadline_s:
        with suppress(urllib.error.URLError, OSError):
            url = "https://127.0.0.1:6443/readyz"
            with urllib.request.urlopen(url, timeout=5, context=context):
                return
        time.sleep(0.2)
    raise TimeoutError(f"the API server was not ready in {_API_TIMEOUT_S:.0f} s: see {folder.logs}")


def _bury(running: dict[int, Daemon]) -> int:
    while True:
        pid, status = os.wait()
        if pid in running:
            code = os.waitstatus_to_exitcode(status)
            print(f"{running[pid].name} ended with {code}; the node ends", flush=True)
            return 1


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


if __name__ == "__main__":
    # Every error ends the process, and so the node; the log says which.
    os.umask(0o022)
    sys.exit(main())
