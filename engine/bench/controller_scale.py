"""A controller with a thousand tables: how fast it acts, and what it costs.

    python -m bench.controller_scale [--tables 1000] [--idle 120]

A real API server, a real MinIO and `tideline-operator controller` as a process of its own; the Jobs
it creates are completed here, without pods that run anything. Prints the measurements, and fails
when a target is missed.

1. Tables exist in MinIO; their resources are created. How long until all are Ready?
2. Nothing happens. What does that cost in CPU, memory and requests?
3. Specs change, some a second. How long until the status is about the new spec?
4. Files land in a part of the tables. How long until their Jobs are there, and until the end of a
   Job is in the status?
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from tideline.clock import SystemClock
from tideline.hudi.table.create import TableDefinition, create_table
from tideline.ingest.location import Location
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.minio_server import MinioServer
from tideline_operator.api_objects import (
    JOBS,
    LAKE_STORES,
    LAKE_TABLES,
    NAMESPACES,
    PODS,
    SECRETS,
    ApiRefusedError,
    Manifest,
)
from tideline_operator.controller.object_cache import ObjectCache
from tideline_operator.controller.reflector import Reflector
from tideline_operator.kube import KubeApi
from tideline_operator.testing.api_server import ApiServer
from tideline_operator.testing.api_server_fixtures import install_definitions
from tideline_operator.testing.simulated_cluster import SimulatedCluster

NAMESPACE = "scale"
IDLE_CPU_PERCENT_MAX = 5.0
MEMORY_MIB_MAX = 300.0
SPEC_CHANGE_S_MAX = 2.0
CHANGES_PER_S = 5.0
_PORT = 18080
_CLOCK = SystemClock()


@dataclass(slots=True)
class Usage:
    """What the operator's process has used up to a moment."""

    at_s: float
    cpu_s: float
    memory_bytes: int
    requests: dict[tuple[str, str], float]
    turns: float


@dataclass(slots=True)
class Measurements:
    """What is printed: name and value, and the targets that were missed."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def note(self, name: str, text: str, *, is_met: bool = True) -> None:
        self.lines.append((name, text))
        print(f"{name}: {text}" + ("" if is_met else "  (target missed)"), flush=True)
        if not is_met:
            self.missed.append(name)


class Watched:
    """The tables as a watch shows them, with the moment of every change that is waited for."""

    def __init__(self, api: KubeApi) -> None:
        self.cache = ObjectCache()
        self._waiting: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()
        self.delays_s: list[float] = []
        self.reflector = Reflector(
            api, LAKE_TABLES, self.cache, self._changed, _CLOCK, namespace=NAMESPACE
        )
        self.reflector.start()

    def expect(self, name: str, generation: int, since_s: float) -> None:
        """Take the time until the status of a table is about that generation."""
        with self._lock:
            self._waiting[name] = (generation, since_s)
        item = self.cache.get((NAMESPACE, name))
        if item is not None:
            self._changed(None, item)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def count(self, holds: Callable[[Manifest], bool]) -> int:
        return sum(holds(item) for item in self.cache.all())

    def _changed(self, _: Manifest | None, item: Manifest | None) -> None:
        if item is None:
            return
        name = item["metadata"]["name"]
        seen = (item.get("status") or {}).get("observedGeneration", 0)
        with self._lock:
            wanted = self._waiting.get(name)
            if wanted is not None and seen >= wanted[0]:
                del self._waiting[name]
                self.delays_s.append(time.monotonic() - wanted[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--idle", type=float, default=120.0, help="seconds")
    parser.add_argument("--quiet", type=float, default=400.0, help="seconds until all are idle")
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--ingests", type=int, default=100)
    asked = parser.parse_args()
    measurements = Measurements()
    with MinioServer() as minio, ApiServer() as server, tempfile.TemporaryDirectory() as folder:
        bucket = minio.create_bucket()
        api = server.api()
        install_definitions(api)
        connection = StoreConnection(S3Credentials(minio.access_key, minio.secret_key))

        def open_store(place: Location) -> ObjectStore:
            return StoreLocation.of(place.uri, dict(place.options)).open(connection)

        declare_store(api, minio.endpoint, dict(minio.environment()))
        options = tuple(sorted(minio.storage_options().items()))
        names = [f"table-{number:04d}" for number in range(asked.tables)]
        make_tables(bucket, options, names, open_store)
        watched = Watched(api)
        with operator(server, Path(folder)) as process:
            measure_start(api, watched, bucket, names, process, measurements)
            measure_idle(process, "soon after the start", 45.0, asked.idle, measurements)
            measure_idle(process, "idle", asked.quiet, asked.idle, measurements)
            measure_changes(api, watched, names, asked.changes, process, measurements)
            cluster = SimulatedCluster(api, NAMESPACE, open_store)
            landing = Location(f"s3://{bucket}/landing", options)
            measure_ingests(
                cluster, api, watched, names[: asked.ingests], open_store(landing), measurements
            )
            watched.reflector.stop()
            memory = usage(process).memory_bytes / 2**20
            measurements.note(
                "memory at the end", f"{memory:.0f} MiB", is_met=memory < MEMORY_MIB_MAX
            )
    return 1 if measurements.missed else 0


def declare_store(api: KubeApi, endpoint: str, keys: dict[str, str]) -> None:
    api.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    secret: Manifest = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "keys"},
        "stringData": keys,
    }
    api.create(SECRETS, secret, NAMESPACE)
    store: Manifest = {
        "apiVersion": LAKE_STORES.api_version,
        "kind": LAKE_STORES.kind,
        "metadata": {"name": "minio"},
        "spec": {"endpoint": endpoint, "credentials": {"secretName": "keys"}},
    }
    api.create(LAKE_STORES, store, NAMESPACE)


def make_tables(
    bucket: str,
    options: tuple[tuple[str, str], ...],
    names: list[str],
    open_store: Callable[[Location], ObjectStore],
) -> None:
    """Empty tables in MinIO."""

    def make(name: str) -> None:
        # The simulated cluster commits to tables of version 6.
        named = name.replace("-", "_")
        definition = TableDefinition(named, ("id",), (), ("ts",), table_version=6)
        create_table(open_store(Location(f"s3://{bucket}/{name}", options)), definition, _CLOCK)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(make, names))


def table_manifest(bucket: str, name: str) -> Manifest:
    source = {"format": "parquet", "path": f"s3://{bucket}/landing/{name}/"}
    return {
        "apiVersion": LAKE_TABLES.api_version,
        "kind": LAKE_TABLES.kind,
        "metadata": {"name": name},
        "spec": {
            "storeRef": "minio",
            "location": f"s3://{bucket}/{name}",
            "recordKey": ["id"],
            "ordering": ["ts"],
            "ingest": [{"name": "landing", "source": source, "trigger": {"every": "30s"}}],
        },
    }


@contextmanager
def operator(server: ApiServer, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The controller's process."""
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("AWS_")},
        "TIDELINE_ENGINE_IMAGE": "localhost/tideline-engine:dev",
        "TIDELINE_NAMESPACES": NAMESPACE,
        "TIDELINE_EGRESS_ALLOWED_RANGES": "127.0.0.0/8",
        "TIDELINE_OPERATIONS_MAX": "20",
        "TIDELINE_METRICS_PORT": str(_PORT),
        "TIDELINE_HEALTH_PORT": str(_PORT + 1),
        "POD_NAMESPACE": NAMESPACE,
    }
    command = [sys.executable, "-m", "tideline_operator", "controller"]
    log_path = folder / "operator.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*command, "--kubeconfig", str(server.kubeconfig)],
            env=environment,
            stdout=log,
            stderr=log,
        )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)
        lines = log_path.read_text("utf-8").splitlines()
        bad = [line for line in lines if '"level": "error"' in line or '"warning"' in line]
        print(f"log lines: {len(lines)}, warnings and errors: {len(bad)}", *bad[:5], sep="\n")


def measure_start(
    api: KubeApi,
    watched: Watched,
    bucket: str,
    names: list[str],
    process: subprocess.Popen[bytes],
    measurements: Measurements,
) -> None:
    started_s = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        manifests = (table_manifest(bucket, name) for name in names)
        list(pool.map(lambda item: api.create(LAKE_TABLES, item, NAMESPACE), manifests))
    created_s = time.monotonic() - started_s
    until(lambda: watched.count(is_ready) == len(names), "all tables are Ready", 600.0)
    took_s = time.monotonic() - started_s
    used = usage(process)
    measurements.note("tables", f"{len(names):,}")
    measurements.note("all resources created after", f"{created_s:.1f} s")
    measurements.note("all tables Ready after", f"{took_s:.1f} s")
    measurements.note("CPU until then", f"{used.cpu_s:.1f} s")
    measurements.note("API requests until then", f"{sum(used.requests.values()):,.0f}")


def measure_idle(
    process: subprocess.Popen[bytes],
    phase: str,
    wait_s: float,
    idle_s: float,
    measurements: Measurements,
) -> None:
    """What a while without changes costs, `wait_s` from now; the targets count when `idle`."""
    time.sleep(wait_s)
    is_idle = phase == "idle"
    before = usage(process)
    time.sleep(idle_s)
    after = usage(process)
    taken_s = after.at_s - before.at_s
    cpu = 100 * (after.cpu_s - before.cpu_s) / taken_s
    is_met = cpu < IDLE_CPU_PERCENT_MAX or not is_idle
    measurements.note(f"CPU {phase}", f"{cpu:.1f} % of a core", is_met=is_met)
    memory = after.memory_bytes / 2**20
    measurements.note(f"memory {phase}", f"{memory:.0f} MiB", is_met=memory < MEMORY_MIB_MAX)
    asked = {key: n - before.requests.get(key, 0) for key, n in after.requests.items()}
    named = ", ".join(f"{v} {r} {n:.0f}" for (v, r), n in sorted(asked.items()) if n)
    measurements.note(f"API requests {phase}", f"{sum(asked.values()) / taken_s:.2f}/s ({named})")
    turns = after.turns - before.turns
    measurements.note(f"turns {phase}", f"{turns / taken_s:.1f}/s")
    lists = sum(n for (verb, _), n in asked.items() if verb == "list")
    measurements.note(
        f"list requests {phase}", f"{lists:.0f} in {turns:.0f} turns", is_met=lists <= 0.01 * turns
    )


def measure_changes(
    api: KubeApi,
    watched: Watched,
    names: list[str],
    changes: int,
    process: subprocess.Popen[bytes],
    measurements: Measurements,
) -> None:
    before = usage(process)
    for number in range(changes):
        name = names[(number * 7_919) % len(names)]
        change = {"spec": {"services": {"cleaning": {"retain": 11 + number % 7}}}}
        since_s = time.monotonic()
        changed = api.patch(LAKE_TABLES, name, change, NAMESPACE)
        assert changed is not None
        watched.expect(name, changed["metadata"]["generation"], since_s)
        time.sleep(max(0.0, 1 / CHANGES_PER_S - (time.monotonic() - since_s)))
    until(lambda: watched.waiting == 0, "all changes were seen", 60.0)
    after = usage(process)
    delays = sorted(watched.delays_s)
    last = delays[min(len(delays) - 1, round(0.99 * len(delays)))]
    measurements.note("spec changes", f"{len(delays)} at {CHANGES_PER_S:g}/s")
    text = f"median {median(delays) * 1000:.0f} ms, 99th percentile {last * 1000:.0f} ms"
    measurements.note("acted on after", text, is_met=last < SPEC_CHANGE_S_MAX)
    cpu_ms = 1000 * (after.cpu_s - before.cpu_s) / max(1.0, after.turns - before.turns)
    measurements.note("CPU for a turn", f"{cpu_ms:.1f} ms")


def measure_ingests(
    cluster: SimulatedCluster,
    api: KubeApi,
    watched: Watched,
    names: list[str],
    landing: ObjectStore,
    measurements: Measurements,
) -> None:
    landed_s = time.monotonic()
    for name in names:
        landing.put(f"{name}/a.parquet", b"rows")
    done: list[float] = []
    seen: set[str] = set()
    deadline_s = landed_s + 900
    while len(seen) < len(names) and time.monotonic() < deadline_s:
        for job in filter(cluster.can_start, cluster.active_jobs()):
            seen.add(job["metadata"]["labels"]["tideline.dev/table"])
            cluster.carry_out(job)
            done.append(time.monotonic() - landed_s)
        time.sleep(0.2)
    until(lambda: watched.count(has_ingested) >= len(names), "every ingest is in the status", 60.0)
    took = f"the last ended {max(done, default=0):.0f} s after the files had landed"
    measurements.note("ingests", f"{len(seen)} Jobs, {took}")
    for job in cluster.all_jobs():
        api.delete(JOBS, job["metadata"]["name"], NAMESPACE)
    for pod in api.list(PODS, NAMESPACE)[0]:
        try:
            api.delete(PODS, pod["metadata"]["name"], NAMESPACE)
        except ApiRefusedError:
            continue


def is_ready(item: Manifest) -> bool:
    conditions = (item.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


def has_ingested(item: Manifest) -> bool:
    operations = (item.get("status") or {}).get("operations") or ()
    return any(
        operation["kind"] == "ingest" and operation["phase"] == "Succeeded"
        for operation in operations
    )


def usage(process: subprocess.Popen[bytes]) -> Usage:
    """From /proc and from the operator's own metrics."""
    fields = Path(f"/proc/{process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    pages = int(Path(f"/proc/{process.pid}/statm").read_text("ascii").split()[1])
    with urllib.request.urlopen(f"http://127.0.0.1:{_PORT}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    requests: dict[tuple[str, str], float] = {}
    for resource, verb, count in re.findall(
        r'^tideline_api_requests_total\{code="\d+",resource="(\w+)",verb="(\w+)"\} (\S+)$',
        text,
        re.M,
    ):
        key = (verb, resource)
        requests[key] = requests.get(key, 0.0) + float(count)
    turns = sum(
        float(n) for n in re.findall(r"^tideline_reconciles_total\{.*\} (\S+)$", text, re.M)
    )
    return Usage(
        at_s=time.monotonic(),
        cpu_s=ticks / os.sysconf("SC_CLK_TCK"),
        memory_bytes=pages * os.sysconf("SC_PAGE_SIZE"),
        requests=requests,
        turns=turns,
    )


def until(probe: Callable[[], bool], what: str, timeout_s: float) -> None:
    deadline_s = time.monotonic() + timeout_s
    while not probe():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"Not after {timeout_s:g} s: {what}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main())
