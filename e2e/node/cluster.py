"""Create and delete a cluster of one node on this machine, and load images into it.

`delete_cluster` finds everything by the cluster's name, wherever a creation stopped: the control
groups list every process, the namespaces of these processes hold every mount, interface and rule,
and one folder holds every file. `create_cluster` starts by deleting what an earlier attempt left.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.build.versions import images_folder, kubernetes_folder
from e2e.node import network
from e2e.node.certificates import make_certificates
from e2e.node.configuration import PAUSE_IMAGE, write_configuration
from e2e.node.control_groups import ControlGroups
from e2e.node.node_folder import COVERED_FOLDERS, NODES_MAX, NodeFolder
from tideline.cache_directory import cache_directory

ROOT = Path(__file__).resolve().parents[2]

_READY_TIMEOUT_S = 180.0
_REMOVE_TIMEOUT_S = 180.0


class NodeError(Exception):
    """The cluster cannot be created or used; the message says why and what to do."""


def clusters() -> tuple[str, ...]:
    """The names of clusters that were created completely and still run."""
    finished = (folder for folder in NodeFolder.all() if folder.ready_mark.exists())
    return tuple(folder.name for folder in finished if _groups(folder).daemons())


def create_cluster(name: str, kubeconfig: Path) -> None:
    """Bring a node up and write the administrator's kubeconfig."""
    _require_root()
    folder = NodeFolder(name)
    with _one_at_a_time():
        if name in clusters():
            raise NodeError(f"cluster {name} exists already")
        _delete(folder)
        try:
            _bring_up(folder)
        except BaseException as failure:
            log = folder.logs / "node.log"
            reason = log.read_text(errors="replace")[-2000:] if log.exists() else ""
            _delete(folder)
            if isinstance(failure, (OSError, subprocess.SubprocessError, NodeError)):
                raise NodeError(f"cluster {name}: {failure}\n{reason}".rstrip()) from failure
            raise
    _write_private(kubeconfig, folder.kubeconfig.read_text())


def delete_cluster(name: str, kubeconfig: Path | None = None) -> None:
    """Remove a cluster and everything it left on this machine; nothing happens if there is none."""
    _require_root()
    folder = NodeFolder(name)
    with _one_at_a_time():
        _delete(folder)
    if kubeconfig is not None:
        kubeconfig.unlink(missing_ok=True)


def load_image(cluster: str, image: str) -> None:
    """Load a built image into the cluster's containerd, unless this very archive was loaded."""
    if cluster not in clusters():
        raise NodeError(f"there is no cluster {cluster}")
    archive = image_archive(image)
    if not archive.exists():
        raise NodeError(f"image {image} is not built: run `make images`")
    folder = NodeFolder(cluster)
    loaded, version = folder.loaded / archive.name, str(archive.stat().st_mtime_ns)
    if not loaded.exists() or loaded.read_text() != version:
        _import(folder, archive)
        loaded.write_text(version)


def tag_image(cluster: str, image: str, tagged: str) -> None:
    """Give a loaded image another name."""
    command = ["ctr", *_containerd(NodeFolder(cluster)), "images", "tag", "--force", image, tagged]
    subprocess.run(command, check=True, capture_output=True)


def kill_container(cluster: str, container: str) -> None:
    """SIGKILL for everything in a container, its first process included."""
    kill = ["tasks", "kill", "--all", "--signal", "SIGKILL", container]
    subprocess.run(["ctr", *_containerd(NodeFolder(cluster)), *kill], check=True)


def signal_daemon(cluster: str, name: str, number: signal.Signals) -> None:
    """Send a signal to a daemon of the node. Raises NodeError when it does not run."""
    # The kernel cuts the names of processes at fifteen characters.
    found = [pid for pid in _groups(NodeFolder(cluster)).daemons() if _name_of(pid) == name[:15]]
    if not found:
        raise NodeError(f"cluster {cluster} has no daemon {name}")
    for pid in found:
        os.kill(pid, number)


def first_process(cluster: str) -> int:
    """The process whose namespaces are the node's. Raises NodeError when there is no such node."""
    daemons = _groups(NodeFolder(cluster)).daemons()
    own = {pid for pid in daemons if _name_of(pid) != "unshare"}
    if not own:
        raise NodeError(f"cluster {cluster} does not run")
    return min(own)


def audit_log(cluster: str) -> Path:
    """Requests of service accounts to the API server: one JSON object per line."""
    return NodeFolder(cluster).audit_log


def image_archive(image: str) -> Path:
    """Where the build keeps the image of this name."""
    return images_folder() / f"{image.replace('/', '+').replace(':', '+')}.tar"


def _bring_up(folder: NodeFolder) -> None:
    groups = _groups(folder)
    for covered in COVERED_FOLDERS:
        if folder.path.is_relative_to(covered):
            raise NodeError(f"the cache is in {covered}, which a node covers: set XDG_CACHE_HOME")
    folder.make(_free_slot())
    groups.make()
    write_configuration(folder, groups.name, _snapshotter(folder))
    make_certificates(folder)
    pid = _start_first_process(folder, groups)
    network.connect(folder, pid)
    _wait_until_ready(folder, groups)
    _import(folder, image_archive(PAUSE_IMAGE))
    folder.ready_mark.touch()


def _start_first_process(folder: NodeFolder, groups: ControlGroups) -> int:
    """Start it in new namespaces; returns its process id as this machine sees it."""
    path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "PATH": f"{os.environ['PATH']}:/usr/local/sbin:/usr/sbin:/sbin",
    }
    namespaces = ("--mount", "--net", "--pid", "--ipc", "--uts", "--propagation", "private")
    with (folder.logs / "node.log").open("wb") as log:
        process = subprocess.Popen(
            ["unshare", *namespaces, "--fork", "--kill-child", "--mount-proc",
             sys.executable, "-m", "e2e.node.first_process", folder.name],
            cwd=folder.path,
            env=environment,
            preexec_fn=groups.join,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    deadline_s = time.monotonic() + 10
    while not (started := groups.daemons() - {process.pid}):
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise NodeError("no namespaces for the node: unshare failed")
        time.sleep(0.02)
    return min(started)


def _wait_until_ready(folder: NodeFolder, groups: ControlGroups) -> None:
    kubectl = [f"{kubernetes_folder()}/kubectl", f"--kubeconfig={folder.kubeconfig}"]
    questions = (
        ["wait", "--for=condition=Ready", f"node/{folder.node_name}", "--timeout=5s"],
        # No pod can be created before its account exists.
        ["get", "serviceaccount", "default"],
    )

    def is_ready() -> bool:
        asked = (subprocess.run([*kubectl, *words], capture_output=True) for words in questions)
        return all(answer.returncode == 0 for answer in asked)

    deadline_s = time.monotonic() + _READY_TIMEOUT_S
    while not is_ready():
        if not groups.daemons():
            raise NodeError("a daemon ended")
        if time.monotonic() > deadline_s:
            raise NodeError(f"the node was not ready in {_READY_TIMEOUT_S:.0f} s")
        time.sleep(0.3)


def _import(folder: NodeFolder, archive: Path) -> None:
    snapshotter = ["--snapshotter", _snapshotter(folder)]
    command = ["ctr", *_containerd(folder), "images", "import", *snapshotter, str(archive)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NodeError(f"{archive.name} cannot be loaded: {done.stderr.strip()}")


def _containerd(folder: NodeFolder) -> list[str]:
    return ["--address", str(folder.containerd_socket), "--namespace", "k8s.io"]


def _snapshotter(folder: NodeFolder) -> str:
    """Layers on top of each other where the file system can, copies of them where it cannot."""
    probe = Path(tempfile.mkdtemp(dir=folder.path))
    for name in ("lower", "upper", "work", "merged"):
        (probe / name).mkdir()
    options = f"lowerdir={probe}/lower,upperdir={probe}/upper,workdir={probe}/work"
    mount = ["mount", "-t", "overlay", "overlay", "-o", options, str(probe / "merged")]
    # In a mount namespace that ends with the command.
    done = subprocess.run(["unshare", "--mount", *mount], capture_output=True)
    shutil.rmtree(probe)
    return "overlayfs" if done.returncode == 0 else "native"


def _delete(folder: NodeFolder) -> None:
    _groups(folder).end()
    if (folder.path / "slot").exists():
        network.disconnect(folder)
    deadline_s = time.monotonic() + _REMOVE_TIMEOUT_S
    while folder.path.exists():
        # The last mounts disappear a moment after the last process.
        shutil.rmtree(folder.path, ignore_errors=True)
        if time.monotonic() > deadline_s:
            raise NodeError(f"{folder.path} cannot be removed")
        time.sleep(0.1)


def _free_slot() -> int:
    """A number whose addresses and interfaces no other node has."""
    taken = {folder.slot for folder in NodeFolder.all() if (folder.path / "slot").exists()}
    free = next((slot for slot in range(1, NODES_MAX + 1) if slot not in taken), None)
    if free is None:
        raise NodeError(f"there are {NODES_MAX} nodes already: delete one")
    return free


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _groups(folder: NodeFolder) -> ControlGroups:
    return ControlGroups(f"tideline-{folder.name}")


def _require_root() -> None:
    if os.geteuid() != 0:
        raise NodeError("a node needs root for its namespaces: run as root, or use kind")


def _write_private(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600, exist_ok=True)
    path.chmod(0o600)
    path.write_text(text)


@contextmanager
def _one_at_a_time() -> Iterator[None]:
    with (cache_directory() / ".nodes.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
