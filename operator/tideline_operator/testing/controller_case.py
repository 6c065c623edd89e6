"""A controller within a test, in one namespace of a real API server, on tables in a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.clock import Clock
from tideline.testing.patience import PATIENCE_S
from tideline.trust.addresses import AddressRules
from tideline_operator.api_objects import EVENTS, LAKE_STORES, LAKE_TABLES, Manifest
from tideline_operator.controller.budgets import Limits
from tideline_operator.controller.controller import Controller
from tideline_operator.controller.controller_metrics import ProcessMetrics
from tideline_operator.controller.job_starter import JobControl
from tideline_operator.controller.settings import ControllerSettings
from tideline_operator.kube import KubeApi
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.reading.reader import Reader
from tideline_operator.testing.api_server import ADMIN, OPERATOR
from tideline_operator.testing.eventually import eventually
from tideline_operator.testing.simulated_cluster import SimulatedCluster

LOOPBACK_RANGES = "127.0.0.0/8,::1/128"
"""Where tests have their stores and catalogs; a controller connects there only when told to."""
_SETTLED_AGE_S = 60.0


def controller_settings(namespace: str, **given: Any) -> ControllerSettings:
    """Settings of a controller that manages one namespace only."""
    return ControllerSettings(
        **{
            "launch": LaunchSettings(image="localhost/tideline-engine:dev"),
            "namespaces": (namespace,),
            "limits": Limits(operations_max=4),
            "pod_name": "controller-0",
            "pod_namespace": namespace,
            "addresses": AddressRules.of(LOOPBACK_RANGES),
            **given,
        }
    )


class ServesUsers(Protocol):
    """An API server that users sign in at."""

    def api(self, user: str, /) -> KubeApi:
        """A client that is signed in as `user`."""
        ...


class ControllerCase:
    """One controller, started and stopped at will, and a client to look at what it does."""

    def __init__(
        self, server: ServesUsers, namespace: str, folder: Path, clock: Clock | None = None
    ) -> None:
        """`clock` is the controller's, the machine's by default."""
        self.api = api = server.api(ADMIN)
        self.operator_api = server.api(OPERATOR)
        self.clock = clock
        self.namespace = namespace
        self.folder = folder
        self.cluster = SimulatedCluster(api, namespace)
        self.controller: Controller | None = None
        self.metrics = ProcessMetrics()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(
        self,
        *,
        job_control: JobControl | None = None,
        reader: Reader | None = None,
        **settings: Any,
    ) -> Controller:
        """Start a controller, with its caches filled."""
        controller = self.make(job_control=job_control, reader=reader, **settings)
        assert controller.start(timeout_s=30.0)
        return controller

    def make(
        self,
        *,
        job_control: JobControl | None = None,
        reader: Reader | None = None,
        **settings: Any,
    ) -> Controller:
        """A controller that is not started."""
        self.metrics = ProcessMetrics()
        self.operator_api.on_request = self.metrics.note_request
        self.controller = Controller(
            self.operator_api,
            controller_settings(self.namespace, **settings),
            job_control=job_control,
            process=self.metrics,
            clock=self.clock,
            allows_local=True,
            reader=reader,
        )
        return self.controller

    def stop(self) -> None:
        """Stop it as SIGTERM does."""
        if self.controller is not None:
            self.controller.stop(10.0)
            self.controller = None
        self.operator_api.on_request = None

    def declare(self, name: str = "people", **spec: Any) -> Manifest:
        """Create or change a LakeTable with one ingest, `spec` over it."""
        content = {
            "location": f"file://{self.folder}/{name}",
            "recordKey": ["id"],
            "ordering": ["ts"],
            "schema": [{"name": "id", "type": "long"}, {"name": "ts", "type": "long"}],
            "ingest": [
                {
                    "name": "landing",
                    "source": {"format": "parquet", "path": f"file://{self.folder}/{name}-landing"},
                    "trigger": {"every": "1s"},
                    "maxFilesPerCommit": 2,
                }
            ],
            **spec,
        }
        manifest: Manifest = {
            "apiVersion": LAKE_TABLES.api_version,
            "kind": LAKE_TABLES.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {key: value for key, value in content.items() if value is not None},
        }
        known = self.api.get(LAKE_TABLES, name, self.namespace)
        if known is None:
            self.api.create(LAKE_TABLES, manifest, self.namespace)
        else:
            self.change(name, {"spec": spec})
        return self.table(name)

    def declare_store(self, **spec: Any) -> None:
        """Create the LakeStore `store`."""
        manifest: Manifest = {
            "apiVersion": LAKE_STORES.api_version,
            "kind": LAKE_STORES.kind,
            "metadata": {"name": "store", "namespace": self.namespace},
            "spec": spec,
        }
        self.api.create(LAKE_STORES, manifest, self.namespace)

    def change(self, name: str, change: Mapping[str, Any]) -> Manifest:
        """Merge a change into a LakeTable."""
        changed = self.api.patch(LAKE_TABLES, name, dict(change), self.namespace)
        assert changed is not None
        return changed

    def land(self, *names: str, table: str = "people") -> None:
        """Files that arrived in the landing prefix a while ago."""
        for name in names:
            path = self._landing(table) / name
            path.write_bytes(b"rows")
            _age(path)

    def land_rows(self, table: str = "people", **rows: int) -> None:
        """A file of rows, `id` by name, that arrived a while ago."""
        path = self._landing(table) / f"{'-'.join(rows)}.parquet"
        content = {"id": list(rows.values()), "ts": [1] * len(rows)}
        schema = pa.schema([("id", pa.int64()), ("ts", pa.int64())])
        pq.write_table(pa.table(content, schema=schema), path)
        _age(path)

    def _landing(self, table: str) -> Path:
        folder = self.folder / f"{table}-landing"
        folder.mkdir(exist_ok=True)
        return folder

    def table(self, name: str = "people") -> Manifest:
        found = self.api.get(LAKE_TABLES, name, self.namespace)
        assert found is not None
        return found

    def status(self, name: str = "people") -> Manifest:
        return dict(self.table(name).get("status") or {})

    def condition(self, kind: str, name: str = "people") -> Manifest:
        """One condition; empty when there is none of that type."""
        found = (item for item in self.status(name).get("conditions", ()) if item["type"] == kind)
        return next(found, {})

    def operations(self, name: str = "people") -> list[Manifest]:
        return list(self.status(name).get("operations", ()))

    def event_reasons(self, name: str = "people") -> list[str]:
        """Reasons of the table's events, sorted."""
        events, _ = self.api.list(EVENTS, self.namespace)
        return sorted(item["reason"] for item in events if item["involvedObject"]["name"] == name)

    def until_event(self, reason: str, name: str = "people") -> None:
        """Wait for an event of the table; the condition for the same may come first."""
        self.until(lambda: reason in self.event_reasons(name), f"an event {reason} of {name}")

    def event_notes(self, name: str = "people") -> str:
        """The messages of the table's events, in one text."""
        events, _ = self.api.list(EVENTS, self.namespace)
        found = (item["message"] for item in events if item["involvedObject"]["name"] == name)
        return "\n".join(found)

    def until(self, probe: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
        """Wait for something, and show the table's status when it does not come."""
        try:
            return eventually(probe, what, timeout_s=timeout_s)
        except TimeoutError as error:
            tables, _ = self.api.list(LAKE_TABLES, self.namespace)
            shown = "\n".join(
                f"{item['metadata']['name']}: {item.get('status')}" for item in tables
            )
            raise TimeoutError(f"{error}\n{shown}") from error

    def until_job(self, kind: str = "", *, but: tuple[str, ...] = ()) -> Manifest:
        """The first active Job of that kind that can start, other than those named."""
        what = f"a Job of kind {kind or 'any'}"
        found: Manifest = self.until(lambda: self.startable_job(kind, but=but), what)
        return found

    def startable_job(self, kind: str = "", *, but: tuple[str, ...] = ()) -> Manifest | None:
        """The same, None where there is none yet."""
        for job in self.cluster.active_jobs():
            labels = job["metadata"]["labels"]
            is_kind = kind in ("", labels.get("tideline.dev/kind"))
            is_other = job["metadata"]["name"] not in but
            if is_kind and is_other and self.cluster.can_start(job):
                return job
        return None

    def until_ready(self, name: str = "people") -> Manifest:
        """The table, once it is Ready for its newest spec."""

        def is_ready() -> bool:
            table = self.table(name)
            seen = (table.get("status") or {}).get("observedGeneration")
            is_current = seen == table["metadata"]["generation"]
            return is_current and self.condition("Ready", name).get("status") == "True"

        self.until(is_ready, f"{name} is Ready")
        return self.table(name)

    def requests(self, verb: str, resource: str) -> float:
        """Requests of the controller that were answered, by verb and resource."""
        codes = ("200", "201", "403", "404", "409", "422")
        labels = {"verb": verb, "resource": resource}
        return sum(
            self.measured("tideline_api_requests_total", **labels, code=code) for code in codes
        )

    def turns(self) -> float:
        """Turns that the controller has taken, with any result."""
        results = ("done", "stale", "unavailable", "refused", "error")
        return sum(self.measured("tideline_reconciles_total", result=result) for result in results)

    def measured(self, name: str, **labels: str) -> float:
        """One series of the controller's metrics; 0 when there is none."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def _age(path: Path) -> None:
    moment = time.time() - _SETTLED_AGE_S
    os.utime(path, (moment, moment))
