"""Record the flights example on a real Kubernetes as docs/flights-on-kubernetes.md.

    python -m e2e.record_flights LANDING [--files N]

LANDING is what examples/flights/make_landing.py writes. A separate node (e2e/one-node) is created,
the commands of the README are run on it, and their output is recorded unchanged; the images are the
tested ones under the names that operator.yaml and the example use.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from e2e.build.versions import KUBERNETES, kubernetes_folder
from e2e.harness.cluster import Cluster
from e2e.node.cluster import create_cluster, delete_cluster, load_image, tag_image
from tideline.distribution import installed_version
from tideline.testing.peer_environment import prepare_hudi_peer

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "flights-on-kubernetes.md"
NAME = "flights"
IMAGES = ("operator", "engine", "minio")
OPERATIONS = (
    "-o=jsonpath={range .status.operations[*]}{.kind}{'\\t'}{.phase}{'\\t'}{.instant}{'\\t'}"
    "{.startedAt}{'\\t'}{.message}{'\\n'}{end}"
)
COUNT = (
    "import pyarrow as pa; from hudi import HudiReadOptions, HudiTableBuilder as T; "
    "table = T.from_base_uri('s3://lake/flights').build(); "
    "rows = pa.Table.from_batches(table.read(HudiReadOptions())); "
    "print(rows.num_rows, 'flights,', rows.group_by('status').aggregate([([], 'count_all')])"
    ".to_pylist())"
)
LINES_MAX = 24
_QUIET_TIMEOUT_S = 1_200.0


class Recording:
    """The document as it grows."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._text = [
            "# Flights on Kubernetes\n",
            "A terminal session on one node of Kubernetes "
            f"{KUBERNETES}, recorded by `python -m e2e.record_flights`. Times are UTC.\n",
        ]

    def say(self, words: str) -> None:
        self._text.append(f"{words}\n")

    def kubectl(self, command: str) -> None:
        """Run `kubectl COMMAND` and record its output."""
        self.note(f"kubectl {command}", self._cluster.kubectl(*shlex.split(command)))

    def note(self, command: str, output: str) -> None:
        lines = [line.rstrip() for line in output.splitlines()]
        left_out = len(lines) - LINES_MAX
        if left_out > 0:
            half = LINES_MAX // 2
            lines = [*lines[:half], f"... {left_out} lines ...", *lines[-half:]]
        self._text.append("\n".join(["```", f"$ {command}", *lines, "```\n"]))
        print(self._text[-1], flush=True)

    def write(self) -> None:
        DOCUMENT.write_text("\n".join(self._text), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("landing", type=Path)
    parser.add_argument("--files", type=int, default=60)
    arguments = parser.parse_args()
    credentials = {"AWS_ACCESS_KEY_ID": "lake", "AWS_SECRET_ACCESS_KEY": secrets.token_hex(20)}
    environment_file = ROOT / "examples" / "kubernetes" / "credentials.env"
    environment_file.write_text("".join(f"{key}={text}\n" for key, text in credentials.items()))
    with tempfile.TemporaryDirectory() as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        try:
            create_cluster(NAME, kubeconfig)
            _load_images()
            kubectl = kubernetes_folder() / "kubectl"
            cluster = Cluster(NAME, kubeconfig, kubectl, ROOT / "e2e" / "one-node")
            _record(cluster, arguments.landing, arguments.files, credentials)
        finally:
            environment_file.unlink(missing_ok=True)
            delete_cluster(NAME)


def _record(cluster: Cluster, landing: Path, files: int, credentials: dict[str, str]) -> None:
    recording = Recording(cluster)
    recording.kubectl(
        "apply --server-side -f charts/tideline/crds -f charts/tideline/operator.yaml"
    )
    recording.kubectl("-n tideline-system rollout status deployment/tideline-operator")
    recording.kubectl("apply --server-side -k examples/kubernetes")
    cluster.kubectl("-n", "lake", "rollout", "status", "deployment/minio")
    forward = cluster.start_kubectl("-n", "lake", "port-forward", "service/minio", "9000")
    try:
        time.sleep(3)
        recording.say(f"{files} days of reports land, some twice, some late, some cancellations:")
        command = ["python", "examples/kubernetes/land.py", "LANDING", f"--limit={files}"]
        output = _run([sys.executable, *command[1:2], str(landing), command[3]], credentials)
        recording.note(" ".join(command), output)
        _wait(cluster, "Running")
        recording.kubectl("-n lake get laketables")
        recording.kubectl("-n lake get jobs,pods")
        _wait_until_quiet(cluster)
        recording.say("Some minutes later all files are ingested:")
        recording.kubectl("-n lake get laketables")
        recording.note(
            "kubectl -n lake get laketable flights -o jsonpath=...   # status.operations",
            cluster.kubectl("-n", "lake", "get", "laketable", "flights", OPERATIONS),
        )
        recording.kubectl(
            "-n lake get events --field-selector involvedObject.kind=LakeTable "
            "--sort-by .lastTimestamp -o custom-columns=REASON:.reason,MESSAGE:.message"
        )
        recording.say("Another engine, hudi-rs, reads the rows from outside the cluster:")
        recording.note("python -c '...'   # hudi-rs", _read_outside(credentials))
    finally:
        forward.kill()
        forward.wait()
    recording.write()


def _load_images() -> None:
    for name in IMAGES:
        image = f"localhost/tideline-{name}:dev"
        load_image(NAME, image)
        tag_image(NAME, image, f"docker.io/library/tideline-{name}:{installed_version()}")


def _wait(cluster: Cluster, phase: str) -> None:
    cluster.wait_until(
        lambda: any(item["phase"] == phase for item in _operations(cluster)),
        f"an operation is {phase}",
        timeout_s=120,
    )
    time.sleep(15)


def _wait_until_quiet(cluster: Cluster) -> None:
    def is_quiet() -> bool:
        table = cluster.get("LakeTable", "flights", "lake") or {}
        is_at_work = any(item["phase"] in ("Pending", "Running") for item in _operations(cluster))
        return not is_at_work and not table["status"].get("lagFiles")

    for _ in range(3):
        cluster.wait_until(is_quiet, "the table is quiet", timeout_s=_QUIET_TIMEOUT_S)
        time.sleep(12)


def _operations(cluster: Cluster) -> list[dict[str, str]]:
    table = cluster.get("LakeTable", "flights", "lake") or {}
    found: list[dict[str, str]] = table.get("status", {}).get("operations", [])
    return found


def _read_outside(credentials: dict[str, str]) -> str:
    settings = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_ENDPOINT": "http://127.0.0.1:9000",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
    }
    return _run([str(prepare_hudi_peer().python), "-c", COUNT], {**credentials, **settings})


def _run(command: list[str], variables: dict[str, str]) -> str:
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


if __name__ == "__main__":
    main()
