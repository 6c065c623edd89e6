"""`tideline-operator controller`: become the leader, work, stop.

The process contends for the Lease, works while it holds it, and exits when it loses it: the next
leader starts from the state in the cluster. Until the process has exited, its client refuses to
write. On SIGTERM it finishes the turns under way, still renewing the Lease, and then releases it.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import sys
import threading
from pathlib import Path

from tideline.clock import SystemClock
from tideline.storage.remote.identity import allow_only_explicit_identities
from tideline.tracing import send_spans
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.cluster_pages import PAGE_HEADERS, ClusterPages
from tideline_operator.controller.connections import STORE_WRITE_S
from tideline_operator.controller.controller import Controller
from tideline_operator.controller.controller_metrics import ProcessMetrics
from tideline_operator.controller.election import Election
from tideline_operator.controller.health import HttpServer, verdict
from tideline_operator.controller.json_log import log_as_json
from tideline_operator.controller.page_access import PageAccess
from tideline_operator.controller.settings import ControllerSettings
from tideline_operator.kube import KubeApi
from tideline_operator.reading.reader_processes import ReaderProcesses

LEASE_NAME = "tideline-operator"
READER_S = 60.0
"""How long the first looks wait for what reads tables, which starts at the same time."""
_SPANS_S = 3.0
"""How long the end of the process waits for a collector of spans."""
LEASE_SILENT_S = 60.0
"""A standby is ready as long as it has read the Lease within this time."""

_log = logging.getLogger(__name__)


class ControllerProcess:
    """The controller with its election and its HTTP servers."""

    def __init__(self, api: KubeApi, settings: ControllerSettings) -> None:
        self._api = api
        self._settings = settings
        self._clock = SystemClock()
        self._stop = threading.Event()
        self._process_metrics = ProcessMetrics()
        api.on_request = self._process_metrics.note_request
        self._election = Election(
            api,
            namespace=settings.pod_namespace,
            name=LEASE_NAME,
            # A pod whose container was restarted is another contender.
            identity=f"{settings.pod_name}_{secrets.token_hex(4)}",
            clock=self._clock,
            store_write_s=STORE_WRITE_S,
        )
        api.before_write = self._election.check_term
        self._controller: Controller | None = None

    def run(self) -> int:
        """Run until a signal, or until the Lease is lost, which ends the process at once."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: self.stop())
        settings = self._settings
        checks = {"/healthz": self._healthz, "/readyz": self._readyz}
        HttpServer(settings.health_port, checks.get).start()
        HttpServer(settings.metrics_port, {"/metrics": self._metrics_text}.get).start()
        if settings.ui_port is not None:
            pages = ClusterPages(self._api, settings.namespaces, self._known_tables, self._clock)
            access = PageAccess(settings.ui_token_file, self._clock.monotonic_s)
            HttpServer(settings.ui_port, pages.find, PAGE_HEADERS, access).start()
        if self._election.wait_to_lead():
            self._lead()
        self._election.release()
        _log.info("stopped")
        return 0

    def stop(self) -> None:
        """Start to shut down."""
        self._stop.set()
        self._election.stop()

    def _lead(self) -> None:
        renewal = threading.Thread(
            target=self._election.keep_leading, args=(_end_at_once,), name="election", daemon=True
        )
        renewal.start()
        reader = ReaderProcesses(
            self._clock,
            os.environ,
            socket_path=self._settings.reader_socket,
            deadline_s=self._settings.reader_deadline_s,
        )
        controller = Controller(
            self._api,
            self._settings,
            process=self._process_metrics,
            before_store_write=self._election.check_store_write,
            reader=reader,
        )
        self._controller = controller
        starting = threading.Thread(
            target=_start_or_end, args=(controller, reader), name="start", daemon=True
        )
        starting.start()
        # Wakes up now and then, because a signal handler runs between two waits.
        while not self._stop.wait(1.0):
            pass
        controller.stop()
        reader.stop()
        send_spans(_SPANS_S)

    def _healthz(self) -> tuple[int, str]:
        return verdict([] if self._controller is None else self._controller.problems())

    def _readyz(self) -> tuple[int, str]:
        controller = self._controller
        if controller is not None:
            return verdict(controller.missing() or controller.delays())
        silent_s = self._clock.monotonic_s() - self._election.heard_s
        return verdict(["cannot reach the lease"] if silent_s > LEASE_SILENT_S else [])

    def _known_tables(self) -> tuple[Manifest, ...] | None:
        """What the leader's caches hold; None for a standby."""
        controller = self._controller
        return controller.tables.all() if controller is not None and controller.is_ready else None

    def _metrics_text(self) -> tuple[int, str]:
        if self._controller is not None and not self._controller.is_ready:
            # Without the gauges of all tables a firing alert would resolve.
            return verdict(self._controller.missing())
        self._process_metrics.leader.set(self._election.is_leader)
        return 200, self._process_metrics.text()


def run_controller(kubeconfig: Path | None) -> int:
    """Run a controller with the settings of the environment. Raises ConfigError."""
    settings = ControllerSettings.from_environment()
    allow_only_explicit_identities()
    log_as_json(settings.log_level)
    api = KubeApi.from_environment(kubeconfig)
    _log.info("starting; the API server is %s", api.url)
    return ControllerProcess(api, settings).run()


def _start_or_end(controller: Controller, reader: ReaderProcesses) -> None:
    """Start a controller; end the process when it cannot."""
    try:
        if not reader.wait(READER_S):
            # Tables say so, and their Jobs are looked after nevertheless.
            _log.error("nothing that reads tables answers: is the container `reader` running?")
        controller.start()
    except Exception:
        _log.exception("cannot start the controller")
        _end_at_once("the controller could not be started")


def _end_at_once(reason: str) -> None:
    """End the process. Another may be the leader already, so there is no orderly shutdown."""
    _log.error("exiting: %s", reason)
    for handler in logging.getLogger().handlers:
        handler.flush()
    sys.stderr.flush()
    os._exit(1)
