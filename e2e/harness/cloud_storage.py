"""Storage of another cloud than Amazon's, emulated, in the namespace of a lake."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from e2e.harness.cluster import Manifest
from e2e.harness.lake import API_VERSION, EVERY, QUICK_JAVA, Lake, Row
from tideline.storage.location import StoreLocation


class CloudStorage(ABC):
    """`name` is that of its LakeStore, `root` the location of all tables of a test."""

    name: ClassVar[str]
    root: str

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    @abstractmethod
    def start(self) -> None:
        """Run it, and wait until it answers."""

    @abstractmethod
    def stop(self) -> None: ...

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Credentials for this process."""

    @abstractmethod
    def options(self) -> dict[str, str]:
        """What `StoreLocation.of` needs to reach it from this process."""

    @abstractmethod
    def pod_template(self) -> Manifest:
        """`podTemplate` of its tables."""

    def declare(self, spec: Mapping[str, Any]) -> None:
        """Apply its LakeStore."""
        named = {"name": self.name, "namespace": self._lake.namespace}
        self._lake.cluster.apply(
            {"apiVersion": API_VERSION, "kind": "LakeStore", "metadata": named, "spec": dict(spec)}
        )

    def table(self, name: str, **changes: Any) -> dict[str, Any]:
        """What differs from a table on MinIO."""
        source = {"format": "parquet", "path": f"{self.root}/landing/{name}/"}
        return {
            "storeRef": self.name,
            "location": f"{self.root}/{name}",
            "ingest": [{"name": "landing", "source": source, "trigger": {"every": EVERY}}],
            "podTemplate": self.pod_template(),
            **changes,
        }

    def location(self, path: str) -> StoreLocation:
        """As this process reaches it."""
        return StoreLocation.of(f"{self.root}/{path}", self.options())

    def land(self, table: str, file: str, rows: Sequence[Row]) -> None:
        """Put a parquet file into the table's landing prefix."""
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), buffer)
        store = self.location(f"landing/{table}").open()
        store.put(f"{file}.parquet", buffer.getvalue())

    @staticmethod
    def quick_pods(variables: Mapping[str, str]) -> Manifest:
        """Pods that start fast, with variables beside."""
        (container,) = QUICK_JAVA["spec"]["containers"]
        named = [{"name": name, "value": value} for name, value in variables.items()]
        return {"spec": {"containers": [{**container, "env": [*container["env"], *named]}]}}
