"""Where walks take place: one namespace of a real API server with one controller over many walks,
a clock that is set forward, and the resources that each walk begins with.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tideline.ingest.location import Location
from tideline.storage.object_store import ObjectStore
from tideline_operator.api_objects import (
    LAKE_CATALOGS,
    LAKE_STORES,
    LAKE_TABLES,
    ApiResource,
    Manifest,
)
from tideline_operator.controller.controller import Controller
from tideline_operator.launch.engine_pod import LaunchSettings
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.shifted_clock import ShiftedClock
from tideline_operator.testing.simulated_cluster import SimulatedCluster
from tideline_operator.testing.walks.pods import PretendedPods
from tideline_operator.testing.walks.world import KEYS, LakeWorld, MakeIceberg, S3Server

STORE, CATALOG = "store", "catalog"
TABLES = ("one", "two")
_NOBODY = ("", "nobody")
_NEVER_S = 1e7
_IDLE_LOOKS = 1
_LOOK_S = 0.02


class WalkGround:
    """A controller and pretended pods for the length of a `with` block."""

    def __init__(
        self,
        server: ApiServer,
        namespace: str,
        minio: S3Server,
        make_iceberg: MakeIceberg,
        folder: Path,
    ) -> None:
        self._make_iceberg = make_iceberg
        self.clock = ShiftedClock()
        self.case = ControllerCase(server, namespace, folder, self.clock)
        self.api, self.namespace = self.case.api, namespace
        self._minio, self._folder = minio, folder
        self._world: LakeWorld | None = None
        cluster = SimulatedCluster(self.api, namespace, self._open_store, self.clock)
        self.pods = PretendedPods(self.api, namespace, cluster, self._open_store)

    def __enter__(self) -> WalkGround:
        self.pods.__enter__()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.case.stop()
        self.pods.__exit__()

    def begin(self, name: str) -> LakeWorld:
        """A world of its own for the walk `name`."""
        self._world = LakeWorld(
            self.api, self.namespace, self._minio, self._make_iceberg, self._folder, name
        )
        self._world.set_up()
        return self._world

    def start(self) -> Controller:
        """A controller, for which no pod is late: the API server's clock is not set forward."""
        launch = LaunchSettings(image="localhost/tideline-engine:dev", deadline_s=int(_NEVER_S))
        return self.case.start(launch=launch, start_deadline_s=_NEVER_S)

    def restart(self) -> None:
        """As a rollout of the operator does; ends when each object has had a turn."""
        self.case.stop()
        self.start()
        count = sum(len(self.all(kind)) for kind in (LAKE_TABLES, LAKE_CATALOGS))
        self.case.until(lambda: self.case.turns() >= count, "every object has had a turn")

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake the controller."""
        self.clock.advance(seconds)
        controller = self.case.controller
        if controller is not None:
            controller.queue.wake_at(_NOBODY, self.clock.monotonic_s() + _NEVER_S)

    def until_idle(self, timeout_s: float = 10.0) -> None:
        """Until neither the controller nor a pod has something to do now."""
        until_s, idle = time.monotonic() + timeout_s, 0
        while idle < _IDLE_LOOKS and time.monotonic() < until_s:
            looks = self.pods.looks
            while self.pods.looks < looks + 2 and time.monotonic() < until_s:
                time.sleep(_LOOK_S)
            controller = self.case.controller
            assert controller is not None
            state = controller.queue.state
            is_idle = not (state.ready or state.processing or self.pods.is_busy)
            idle = idle + 1 if is_idle else 0

    def all(self, kind: ApiResource) -> list[Manifest]:
        """The objects of a kind, by name."""
        found, _ = self.api.list(kind, self.namespace)
        return sorted(
            ({**item, "kind": kind.kind} for item in found),
            key=lambda item: str(item["metadata"]["name"]),
        )

    def create(self, kind: ApiResource, name: str, spec: Mapping[str, Any]) -> Manifest:
        """An object; the one that is there if there is one."""
        manifest: Manifest = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": dict(spec),
        }
        self.api.create(kind, manifest, self.namespace)
        found = self.api.get(kind, name, self.namespace)
        assert found is not None
        return found

    def _open_store(self, place: Location) -> ObjectStore:
        assert self._world is not None
        return self._world.open_store(place)


def first_specs(world: LakeWorld) -> dict[tuple[ApiResource, str], dict[str, Any]]:
    """What a walk begins with: a LakeStore, LakeTables of Hudi's on it, a LakeCatalog."""
    specs: dict[tuple[ApiResource, str], dict[str, Any]] = {
        (LAKE_STORES, STORE): {
            "endpoint": world.endpoint,
            "credentials": {"secretName": KEYS},
        },
        (LAKE_CATALOGS, CATALOG): {"location": f"file://{world.warehouse}", "every": "30s"},
    }
    for number, name in enumerate(TABLES):
        specs[LAKE_TABLES, name] = {
            "storeRef": STORE,
            "location": f"s3://{world.lake}/{name}",
            "recordKey": ["id"],
            "ordering": ["ts"],
            "schema": [{"name": "id", "type": "long"}, {"name": "ts", "type": "long"}],
            "services": {"mode": "Auto"},
            "deletionPolicy": ("Delete", "Retain")[number % 2],
            "ingest": [
                {
                    "name": "landing",
                    "source": {"format": "parquet", "path": f"s3://{world.landing}/{name}"},
                    "trigger": {"every": "1s"},
                    "maxFilesPerCommit": 2,
                }
            ],
        }
    return specs
