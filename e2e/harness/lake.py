"""A namespace with a LakeStore, a bucket, and tables in it: what one test works with."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from e2e.harness.cluster import Cluster, Manifest, condition, shown
from e2e.harness.object_store import ClusterMinio
from tideline.testing.peer_environment import PeerEnvironment

API_VERSION = "tideline.dev/v1alpha1"
STORE = "minio"
SECRET = "minio-credentials"
DRIVER = "tideline.dev/role=driver"
EXECUTOR = "tideline.dev/role=executor"
WORKER = "tideline.dev/worker"
EVERY = "2s"
"""How often the landing prefix of a table is looked at."""
FIRST_RUN_TIMEOUT_S = 240.0
SMALL_RESOURCES: dict[str, dict[str, Any]] = {
    "driver": {"cpu": "200m", "memory": "1200Mi"},
    "executor": {"cpu": "200m", "memory": "1200Mi", "min": 1, "max": 1},
}

_NO_JOBS = "no-jobs"
_NO_JOBS_SPEC = {"count/jobs.batch": "0"}

QUICK_JAVA = {
    "spec": {
        "containers": [
            {
                "name": "engine",
                "env": [
                    {
                        "name": "JAVA_TOOL_OPTIONS",
                        "value": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
                    }
                ],
            }
        ]
    }
}
"""On small data the optimising compiler costs more than it saves."""

QUICK = {"engine": {"small": "InProcess"}}
"""Fields of a table whose few rows its driver writes alone."""

Row = Mapping[str, Any]


def some_rows(count: int) -> list[Row]:
    return [{"id": number, "ts": 1, "name": f"row {number}"} for number in range(count)]


def run_hudi_rs(
    peer: PeerEnvironment, uri: str, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """hudi-rs outside the cluster, which prints a table's rows as JSON, one a line."""
    return subprocess.run(
        [str(peer.python), str(Path(__file__).with_name("hudi_rs_rows.py")), uri],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], **environment},
    )


class Lake:
    """One namespace with what a user would put into it before the first table."""

    def __init__(
        self, cluster: Cluster, minio: ClusterMinio, namespace: str, peer: PeerEnvironment
    ) -> None:
        self.cluster = cluster
        self.minio = minio
        self.namespace = namespace
        self.bucket = namespace
        self._peer = peer

    def prepare(self, *, has_bucket: bool = True) -> None:
        """The credentials, the connection and, unless the test does without, the bucket."""
        self.apply_secret(self.minio.credentials)
        self.apply_store()
        if has_bucket:
            self.minio.client().make_bucket(self.bucket)

    def apply_secret(
        self, credentials: Mapping[str, str], name: str = SECRET, *, kind: str = "Opaque"
    ) -> None:
        self.cluster.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "type": kind,
                "metadata": {"name": name, "namespace": self.namespace},
                "stringData": dict(credentials),
            }
        )

    def apply_store(self, name: str = STORE, secret: str = SECRET, **changes: Any) -> None:
        spec = {"endpoint": self.minio.endpoint, "credentials": {"secretName": secret}, **changes}
        self.cluster.apply(self._object("LakeStore", name, spec))

    def forbid_jobs(self) -> None:
        """Let the API server refuse every new Job, until `allow_jobs`."""
        quota = {"apiVersion": "v1", "kind": "ResourceQuota"}
        metadata = {"name": _NO_JOBS, "namespace": self.namespace}
        self.cluster.apply({**quota, "metadata": metadata, "spec": {"hard": _NO_JOBS_SPEC}})

    def allow_jobs(self) -> None:
        self.cluster.kubectl("delete", "resourcequota", _NO_JOBS, "-n", self.namespace)

    def table(self, name: str, **changes: Any) -> Manifest:
        """A LakeTable as these tests like it, with some fields of its spec changed."""
        spec = {
            "storeRef": STORE,
            "location": f"s3://{self.bucket}/{name}",
            "type": "MERGE_ON_READ",
            "recordKey": ["id"],
            "ordering": ["ts"],
            "ingest": [
                {
                    "name": "landing",
                    "source": {"format": "parquet", "path": f"s3://{self.bucket}/landing/{name}/"},
                    "trigger": {"every": EVERY},
                }
            ],
            "resources": SMALL_RESOURCES,
            "podTemplate": QUICK_JAVA,
            **changes,
        }
        return self._object("LakeTable", name, spec)

    def apply_table(self, name: str, **changes: Any) -> Manifest:
        return self.cluster.apply(self.table(name, **changes))

    def get(self, name: str) -> Manifest:
        found = self.cluster.get("LakeTable", name, self.namespace)
        assert found is not None, f"no LakeTable {name}"
        return found

    def patch(self, name: str, spec: Mapping[str, Any]) -> None:
        self.cluster.patch("LakeTable", name, self.namespace, {"spec": dict(spec)})

    def land(self, table: str, file: str, rows: Sequence[Row]) -> None:
        """Put a parquet file into the table's landing prefix."""
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), buffer)
        self.put(f"landing/{table}/{file}.parquet", buffer.getvalue())

    def put(self, path: str, content: bytes) -> None:
        self.minio.client().put_object(self.bucket, path, io.BytesIO(content), len(content))

    def paths(self, prefix: str) -> list[str]:
        listed = self.minio.client().list_objects(self.bucket, prefix, recursive=True)
        return [item.object_name or "" for item in listed]

    def rows(self, table: str) -> list[Row]:
        """The table's rows as hudi-rs reads them from outside the cluster, without meta columns."""
        rows = self.stored_rows(table)
        return [{name: row[name] for name in row if not name.startswith("_hoodie")} for row in rows]

    def stored_rows(self, table: str) -> list[Row]:
        """The same with meta columns."""
        uri = f"s3://{self.bucket}/{table}"
        done = run_hudi_rs(self._peer, uri, self.minio.environment())
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines()]

    def by_id(self, table: str) -> dict[Any, Row]:
        """The rows by their record key. Fails when a key appears twice."""
        rows = self.rows(table)
        found = {row["id"]: row for row in rows}
        assert len(found) == len(rows), "a record key appears twice"
        return found

    def wait_for(
        self,
        table: str,
        kind: str,
        status: str = "True",
        *,
        reason: str | None = None,
        timeout_s: float = FIRST_RUN_TIMEOUT_S,
    ) -> Manifest:
        """Wait for a condition of a table, and return it."""

        def holds() -> bool:
            found = condition(self.get(table), kind)
            return found.get("status") == status and reason in (None, found.get("reason"))

        wanted = f"{table} {kind}={status} {reason or ''}"
        self._wait(table, holds, wanted, timeout_s)
        return condition(self.get(table), kind)

    def wait_for_operation(
        self,
        table: str,
        kind: str,
        phase: str = "Succeeded",
        *,
        count: int = 1,
        timeout_s: float = FIRST_RUN_TIMEOUT_S,
    ) -> Manifest:
        """Wait until so many operations of a kind are in a phase; returns the newest of them."""

        def found() -> list[Manifest]:
            operations = self.get(table).get("status", {}).get("operations", [])
            return [item for item in operations if (item["kind"], item["phase"]) == (kind, phase)]

        self._wait(table, lambda: len(found()) >= count, f"{table}: {count} {kind} {phase}",
                   timeout_s)  # fmt: skip
        return found()[-1]

    def wait_for_ids(
        self, table: str, ids: Sequence[Any], *, timeout_s: float = FIRST_RUN_TIMEOUT_S
    ) -> dict[Any, Row]:
        """Wait until exactly these record keys are in the table, each once."""
        wanted = sorted(ids)
        seen: dict[str, Any] = {"status": None, "rows": {}}

        def holds() -> bool:
            # Reading the rows takes as much CPU as Java, so they are read when something has
            # happened. Before the first commit there is nothing to open.
            status = self.get(table).get("status", {})
            happened = status.get("timeline", {}), status.get("operations", [])
            if happened != seen["status"] and status.get("timeline", {}).get("latest"):
                seen["status"], seen["rows"] = happened, self.by_id(table)
            return sorted(seen["rows"]) == wanted

        self._wait(table, holds, f"{table} has the ids {wanted[:5]}... ({len(wanted)})", timeout_s)
        found: dict[Any, Row] = seen["rows"]
        return found

    def inflight(self, table: str) -> list[str]:
        """The instants, oldest first, that have begun to write and are neither committed nor rolled
        back."""
        timeline = f"{table}/.hoodie/timeline/"
        states: dict[str, set[str]] = {}
        for name in (path.removeprefix(timeline) for path in self.paths(timeline)):
            stem, _, state = name.partition(".")
            # A completed one has its completion time as well.
            instant = stem.partition("_")[0]
            if instant.isdecimal() and state:
                states.setdefault(instant, set()).add(state.rpartition(".")[2])
        return sorted(
            instant
            for instant, found in states.items()
            if "inflight" in found and found <= {"inflight", "requested"}
        )

    def wait_for_inflight(self, table: str) -> str:
        """Wait until a commit has begun to write; returns its instant."""
        # No requests while Java starts: they would slow it down.
        self.wait_for_pod(DRIVER)
        found: list[str] = []

        def begun() -> bool:
            found[:] = self.inflight(table)
            return bool(found)

        self._wait(table, begun, "a commit begins", FIRST_RUN_TIMEOUT_S, every_s=0.1)
        return found[0]

    def wait_for_pod(self, labels: str) -> Manifest:
        """Wait until a pod with these labels runs, and return it."""
        found: list[Manifest] = []

        def runs() -> bool:
            found[:] = self.running(labels)
            return bool(found)

        self.cluster.wait_until(runs, f"a pod {labels} runs", timeout_s=FIRST_RUN_TIMEOUT_S)
        return found[0]

    def running(self, labels: str) -> list[Manifest]:
        pods = self.pods(labels)
        return [pod for pod in pods if pod["status"].get("phase") == "Running"]

    def files_of(self, table: str, instant: str) -> list[str]:
        """The data files that an instant left in the table, committed or not."""
        paths = self.paths(f"{table}/")
        return [path for path in paths if instant in path and ".hoodie" not in path]

    def jobs(self, table: str) -> list[Manifest]:
        labels = f"tideline.dev/table={table}"
        return self.cluster.list("Job", self.namespace, labels=labels)

    def pods(self, labels: str) -> list[Manifest]:
        return self.cluster.list("Pod", self.namespace, labels=labels)

    def _wait(
        self, table: str, holds: Any, what: str, timeout_s: float, *, every_s: float = 0.5
    ) -> None:
        try:
            self.cluster.wait_until(holds, what, timeout_s=timeout_s, every_s=every_s)
        except AssertionError as failure:
            found = self.cluster.get("LakeTable", table, self.namespace)
            raise AssertionError(f"{failure}\n{shown(found)}") from None

    def _object(self, kind: str, name: str, spec: Mapping[str, Any]) -> Manifest:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}
