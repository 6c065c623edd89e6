"""A warm worker in a thread of the test, with those methods that a process has."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tideline.clock import SystemClock
from tideline.ingest.executors.kubernetes_account import KubernetesAccount
from tideline.ingest.executors.kubernetes_pods import ThisPod
from tideline.ingest.workers.assignments import PodAssignments
from tideline.ingest.workers.warm_worker import WarmWorker, WorkerEnd, WorkerLimits
from tideline.storage.location import StoreLocation

_IDLE_S = 120.0


class WorkerThread:
    """Starts at once. It has no Spark."""

    def __init__(
        self, pod: Mapping[str, Any], url: str, token: Path, authority: Path, message: Path
    ) -> None:
        self.returncode: int | None = None
        self._stop = threading.Event()
        metadata = pod["metadata"]
        this = ThisPod(metadata["name"], metadata["namespace"], "127.0.0.1", url)
        account = KubernetesAccount(token, authority)
        self._worker = WarmWorker(
            PodAssignments(this, metadata["uid"], account, message),
            _NoSpark(),
            metadata["uid"],
            WorkerLimits(_IDLE_S, _IDLE_S),
            SystemClock(),
            is_stopping=self._stop.is_set,
            progress=lambda _: None,
        )
        threading.Thread(target=self._run, daemon=True).start()

    def poll(self) -> int | None:
        return self.returncode

    def kill(self) -> None:
        self._stop.set()

    def send_signal(self, _: int, /) -> None:
        self._stop.set()

    def wait(self) -> None:
        """It ends after the watch under way."""

    def _run(self) -> None:
        end = self._worker.run()
        self.returncode = 143 if end is WorkerEnd.STOPPED else 0


class _NoSpark:
    def open(self, _: Iterable[StoreLocation], /) -> Any:
        raise AssertionError("a worker in a thread has no Spark")

    def reset(self) -> None:
        return

    def has_died(self) -> bool:
        return False
