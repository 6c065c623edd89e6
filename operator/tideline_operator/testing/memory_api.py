"""An API server in memory, for turns of a controller that a test takes one by one.

It keeps what it is given and checks nothing: no schema, no rights, no admission. What only a real
server does is tested with one (`api_server.py`).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tideline_operator.api_objects import (
    LAKE_TABLES,
    PODS,
    ApiRefusedError,
    ApiResource,
    Created,
    Exists,
    Manifest,
    Replaced,
)
from tideline_operator.controller.controller import Controller
from tideline_operator.controller.job_starter import JobControl
from tideline_operator.kube import KubeApi
from tideline_operator.reading.reader import Reader
from tideline_operator.testing.controller_case import ControllerCase
from tideline_operator.testing.shifted_clock import ShiftedClock

_Place = tuple[str, str | None, str]


class MemoryApi(KubeApi):
    """Objects by kind, namespace and name."""

    def __init__(self) -> None:
        self._objects: dict[_Place, Manifest] = {}
        self._versions = itertools.count(1)
        self.before_write = None
        self.on_request = None

    def get(
        self, resource: ApiResource, name: str, namespace: str | None = None
    ) -> Manifest | None:
        return copy.deepcopy(self._objects.get((resource.kind, namespace, name)))

    def list(
        self, resource: ApiResource, namespace: str | None = None, *, labels: str = "", **_: Any
    ) -> tuple[list[Manifest], str]:
        wanted = dict(part.split("=", 1) for part in labels.split(",") if part)
        found = [
            copy.deepcopy(item)
            for (kind, within, _name), item in sorted(self._objects.items(), key=str)
            if kind == resource.kind
            and namespace in (None, within)
            and wanted.items() <= (item["metadata"].get("labels") or {}).items()
        ]
        return found, str(next(self._versions))

    def create(
        self,
        resource: ApiResource,
        manifest: Manifest,
        namespace: str | None = None,
        **_: Any,
    ) -> Created | Exists:
        name = str(manifest["metadata"]["name"])
        if (resource.kind, namespace, name) in self._objects:
            return Exists()
        return Created(self._put(resource, manifest, namespace))

    def apply(
        self, resource: ApiResource, manifest: Manifest, namespace: str | None = None, **_: Any
    ) -> Manifest:
        """Of the status alone, as the controller does."""
        name = str(manifest["metadata"]["name"])
        known = self._objects.get((resource.kind, namespace, name))
        if known is None:
            raise ApiRefusedError(404, "NotFound", f"there is no {name}")
        return self._put(resource, {**known, "status": manifest.get("status")}, namespace)

    def replace(
        self, resource: ApiResource, manifest: Manifest, namespace: str | None = None, **_: Any
    ) -> Replaced:
        return Replaced(self._put(resource, manifest, namespace))

    def patch(
        self,
        resource: ApiResource,
        name: str,
        change: Manifest,
        namespace: str | None = None,
        **_: Any,
    ) -> Manifest | None:
        known = self.get(resource, name, namespace)
        if known is None:
            return None
        if "spec" in change:
            known["metadata"]["generation"] += 1
        changed = self._put(resource, _merged(known, change), namespace)
        metadata = changed["metadata"]
        if metadata.get("deletionTimestamp") and not metadata.get("finalizers"):
            del self._objects[resource.kind, namespace, name]
        return changed

    def delete(
        self,
        resource: ApiResource,
        name: str,
        namespace: str | None = None,
        *,
        propagation: str = "Background",
        **_: Any,
    ) -> bool:
        """What has finalizers, or a node that has not confirmed its end, stays in deletion."""
        place = resource.kind, namespace, name
        known = self._objects.get(place)
        if known is None:
            return False
        metadata = known["metadata"]
        finalizers = list(metadata.get("finalizers") or ())
        grace_s = 0
        if propagation == "Foreground":
            finalizers.append("foregroundDeletion")
        if resource is PODS and known.get("spec", {}).get("nodeName"):
            finalizers.append("kubelet")
            grace_s = known["spec"].get("terminationGracePeriodSeconds", 30)
        if finalizers:
            ends_at = datetime.now(UTC) + timedelta(seconds=grace_s)
            ends = {"deletionTimestamp": ends_at.strftime("%Y-%m-%dT%H:%M:%SZ")}
            shown = {**metadata, **ends, "finalizers": finalizers}
            self._put(resource, {**known, "metadata": shown}, namespace)
        else:
            del self._objects[place]
        return True

    def _put(self, resource: ApiResource, manifest: Manifest, namespace: str | None) -> Manifest:
        kept = copy.deepcopy(manifest)
        version = str(next(self._versions))
        metadata = {"uid": f"uid-{version}", "generation": 1, **kept["metadata"]}
        metadata |= {"resourceVersion": version, **({"namespace": namespace} if namespace else {})}
        kept = {"apiVersion": resource.api_version, "kind": resource.kind, **kept}
        kept["metadata"] = metadata
        self._objects[resource.kind, namespace, str(metadata["name"])] = kept
        return copy.deepcopy(kept)


class _OneApi:
    """Every user has the same rights."""

    def __init__(self) -> None:
        self._api = MemoryApi()

    def api(self, _user: str, /) -> KubeApi:
        return self._api


class MemoryCase(ControllerCase):
    """A case whose controller has no threads: a wait takes turns, one a second."""

    def __init__(self, folder: Path, clock: ShiftedClock | None = None) -> None:
        self._time = clock or ShiftedClock()
        super().__init__(_OneApi(), "lake", folder, self._time)

    def start(
        self,
        *,
        job_control: JobControl | None = None,
        reader: Reader | None = None,
        **settings: Any,
    ) -> Controller:
        controller = self.make(job_control=job_control, reader=reader, **settings)
        self._look(controller)
        for item in controller.tables.all():
            controller._take_over(item)
        return controller

    def turn(self, name: str = "people") -> None:
        """One turn for a table, after a second and after the watches have shown what there is."""
        controller = self.controller
        assert controller is not None
        self._time.advance(1)
        self._look(controller)
        controller._take_turn((self.namespace, name))

    def until(self, probe: Callable[[], Any], what: str, timeout_s: float = 20.0) -> Any:
        for _ in range(int(timeout_s)):
            found = probe()
            if found:
                return found
            for item in self.api.list(LAKE_TABLES, self.namespace)[0]:
                self.turn(str(item["metadata"]["name"]))
        tables, _ = self.api.list(LAKE_TABLES, self.namespace)
        shown = "\n".join(f"{item['metadata']['name']}: {item.get('status')}" for item in tables)
        raise TimeoutError(f"not within {timeout_s:.0f} s: {what}\n{shown}")

    def _look(self, controller: Controller) -> None:
        for reflector in controller._reflectors:
            reflector._list()


def _merged(known: Manifest, change: Manifest) -> Manifest:
    merged = dict(known)
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merged(merged[name], value)
        else:
            merged[name] = value
    return merged
