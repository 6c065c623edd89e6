"""Warm workers as real processes, in pods that only the API server knows.

`WorkerPods` plays the Job controller and the kubelet: every Job of a worker gets a pod, and the
process that the pod would run, signed in as the namespace's tideline-engine. When the process ends,
the pod and the Job end as it did, with the termination message it left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from tideline_operator.api_objects import Manifest
from tideline_operator.launch.worker_job import WORKER_LABEL
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase

_ACCOUNT = "tideline-engine"
_TOKEN_S = 3_600
_WAIT_S = 30.0
# What the image runs, but for where the account's files are.
_PROGRAM = """
import os, sys
from pathlib import Path
from tideline.cli import warm_worker
from tideline.ingest.executors.kubernetes_account import KubernetesAccount
warm_worker.KubernetesAccount = lambda: KubernetesAccount(Path(sys.argv[1]), Path(sys.argv[2]))
os._exit(warm_worker.main())
"""


def worker_jobs(case: ControllerCase) -> list[Manifest]:
    """The Jobs of workers that have not ended."""
    return [job for job in case.cluster.active_jobs() if WORKER_LABEL in job["metadata"]["labels"]]


def until_worker(case: ControllerCase, *, but: tuple[str, ...] = ()) -> Manifest:
    """The Job of a worker other than those named."""

    def look() -> Manifest | None:
        found = (job for job in worker_jobs(case) if job["metadata"]["name"] not in but)
        return next(found, None)

    job: Manifest = case.until(look, "a worker")
    return job


@dataclass(frozen=True, slots=True)
class _Files:
    """What a pod has of its own."""

    token: Path
    message: Path
    log: Path


class RunningWorker(Protocol):
    """A worker's process, or what a test has instead."""

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def kill(self) -> None: ...

    def send_signal(self, number: int, /) -> None: ...

    def wait(self) -> object: ...


StartWorker = Callable[[Manifest, str, Path, Path, Path], RunningWorker]
"""Starts a worker in a pod: the pod, the API server's address, and the files with the account's
token, the server's certificate and the termination message."""


@dataclass
class WorkerPod:
    """A worker's Job, its pod, and the process in it."""

    job: Manifest
    pod: Manifest
    process: RunningWorker
    message: Path
    log: Path

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    def kill(self) -> None:
        """SIGKILL, as the kernel does for lack of memory."""
        self.process.kill()

    def stop(self) -> None:
        """SIGTERM, as a deleted Job's pod gets it."""
        self.process.send_signal(signal.SIGTERM)


class WorkerPods:
    """Runs the workers of a case for the length of a `with` block."""

    def __init__(
        self,
        case: ControllerCase,
        server: ApiServer,
        folder: Path,
        *,
        start_worker: StartWorker | None = None,
    ) -> None:
        self._case = case
        self._start_worker = start_worker
        self._server = server
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="worker pods", daemon=True)
        self.pods: dict[str, WorkerPod] = {}
        self.ended: list[WorkerPod] = []

    def __enter__(self) -> WorkerPods:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_WAIT_S)
        for pod in self.pods.values():
            pod.kill()
            pod.process.wait()

    def until_one(self) -> WorkerPod:
        """A worker that runs."""
        case = self._case
        pod: WorkerPod = case.until(lambda: next(iter(self.pods.values()), None), "a worker runs")
        return pod

    def start(self, job: Manifest) -> WorkerPod:
        """The pod of a worker's Job, and its process."""
        return self.run_in(job, self._case.cluster.start_pod(job))

    def run_in(self, job: Manifest, pod: Manifest) -> WorkerPod:
        """The process of a pod that is there."""
        name = str(pod["metadata"]["name"])
        files = _Files(*(self._folder / f"{name}.{end}" for end in ("token", "message", "log")))
        audience = "https://kubernetes.default.svc"
        api, namespace = self._case.api, self._case.namespace
        files.token.write_text(api.request_token(_ACCOUNT, namespace, audience, _TOKEN_S))
        files.message.touch()
        server = self._server
        process: RunningWorker
        if self._start_worker is not None:
            process = self._start_worker(
                pod, server.url, files.token, server.authority, files.message
            )
        else:
            process = self._process(job, pod, files)
        made = WorkerPod(job, pod, process, files.message, files.log)
        self.pods[str(job["metadata"]["name"])] = made
        return made

    def _process(self, job: Manifest, pod: Manifest, files: _Files) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            **_given(job),
            "POD_UID": str(pod["metadata"]["uid"]),
            "POD_NAME": str(pod["metadata"]["name"]),
            "POD_NAMESPACE": self._case.namespace,
            "POD_IP": "127.0.0.1",
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._server.port),
            "TIDELINE_TERMINATION_LOG": str(files.message),
            "TIDELINE_GRACE_S": "20",
        }
        command = [sys.executable, "-c", _PROGRAM, str(files.token), str(self._server.authority)]
        with files.log.open("wb") as output:
            return subprocess.Popen(command, env=environment, stdout=output, stderr=output)

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            for job in worker_jobs(self._case):
                known = self.pods.get(str(job["metadata"]["name"]))
                if known is not None and _is_deleted(job):
                    known.stop()
                elif known is None and not self._had(job):
                    self.start(job)
            for name, pod in list(self.pods.items()):
                if pod.process.poll() is not None:
                    self.ended.append(self.pods.pop(name))
                    self._end(pod)

    def _had(self, job: Manifest) -> bool:
        names = [str(worker_pod.job["metadata"]["name"]) for worker_pod in self.ended]
        return str(job["metadata"]["name"]) in names or _is_deleted(job)

    def _end(self, pod: WorkerPod) -> None:
        code = pod.process.returncode
        assert code is not None
        exit_code = code if code >= 0 else 128 - code
        failed = exit_code != 0
        end = {
            "exitCode": exit_code,
            "reason": "Error" if failed else "Completed",
            "message": pod.message.read_text("utf-8"),
            "finishedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        cluster = self._case.cluster
        cluster.set_pod(pod.name, "Failed" if failed else "Succeeded", {"terminated": end})
        cluster.end_job(pod.job, failed=failed)


def _given(job: Manifest) -> dict[str, str]:
    """The variables of the pod that have a value of their own."""
    (container,) = job["spec"]["template"]["spec"]["containers"]
    return {item["name"]: item["value"] for item in container["env"] if "value" in item}


def _is_deleted(job: Manifest) -> bool:
    return bool(job["metadata"].get("deletionTimestamp"))
