"""Measure how soon rows are readable, and for how many pod-seconds, on a real Kubernetes.

    python -m e2e.measure_freshness [--minutes M] [--wait W]

A separate node (e2e/one-node) is created with the tested images. Files of one row each land:

1. one after another into a table, with warm workers, with a pod for each ingest that works in its
   process, and with one that starts Spark and an executor: from the moment a file has landed until
   the commit is complete in which hudi-rs then reads the row;
2. every half a minute into one table, in each of these ways: pods are counted while they exist;
3. every quarter of a minute into ten tables through two workers, for M minutes: the same delay.

What was measured goes to docs/benchmarks/freshness.json and into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from bench.page import write_page
from bench.quiet import wait_for_quiet
from e2e.build.versions import kubernetes_folder
from e2e.harness.cluster import ONE_NODE, Cluster
from e2e.harness.installation import Operator, let_operator_in
from e2e.harness.lake import EVERY, Lake, Row
from e2e.harness.object_store import IMAGE, ClusterMinio
from e2e.node.cluster import create_cluster, delete_cluster
from tideline.testing.peer_environment import prepare_hudi_peer

NAME = "freshness"
TABLES = 10
WARM = {"maxWorkers": 2}
WAYS: Mapping[str, tuple[dict[str, Any], dict[str, Any], int, float]] = {
    "a warm worker": ({"warm": WARM}, {}, 10, 5.0),
    "a pod that works in its process": ({}, {"small": "InProcess"}, 7, 10.0),
    "a pod that starts Spark": ({}, {"small": "Spark"}, 5, 20.0),
}
"""What the LakeStore and the table say of the engine, how many files land, and how soon each is
wanted to be readable, in seconds."""
WORKER = "tideline.dev/worker"
SPARSE_EVERY_S = 30.0
TICK_S = 15.0
TICK_WANTED_S = 30.0
_READABLE_TIMEOUT_S = 180.0


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--wait", type=float, default=0.0, help="minutes to wait for a quiet machine"
    )
    chosen = parser.parse_args()
    load = wait_for_quiet(chosen.wait * 60)
    record: dict[str, Any] = {
        "date": date.today().isoformat(),
        "cores": os.cpu_count(),
        "loadAtStart": round(load, 2),
    }
    with tempfile.TemporaryDirectory() as folder, lake_on_a_node(NAME, Path(folder)) as lake:
        record["readable"] = [_readable(lake, way) for way in WAYS]
        record["sparse"] = [_sparse(lake, way, chosen.minutes / 2) for way in WAYS]
        record["many"] = _many(lake, chosen.minutes)
        measured = Path(folder) / "measured"
        measured.mkdir()
        (measured / "freshness.json").write_text(json.dumps(record, indent=2))
        write_page(measured)
    print(json.dumps(record, indent=2))


@contextmanager
def lake_on_a_node(name: str, folder: Path) -> Iterator[Lake]:
    """A node with the operator, MinIO and a namespace."""
    kubeconfig = folder / "kubeconfig"
    try:
        create_cluster(name, kubeconfig)
        cluster = Cluster(name, kubeconfig, kubernetes_folder() / "kubectl", ONE_NODE)
        cluster.load_image(IMAGE)
        minio = ClusterMinio(cluster)
        minio.start()
        Operator(cluster).install()
        namespace = f"lake-{secrets.token_hex(3)}"
        metadata = {"name": namespace}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
        let_operator_in(cluster, namespace)
        lake = Lake(cluster, minio, namespace, prepare_hudi_peer())
        lake.prepare()
        yield lake
        minio.stop()
    finally:
        delete_cluster(name)


def _readable(lake: Lake, way: str) -> dict[str, Any]:
    """Files that land one after another."""
    store, engine, count, wanted_s = WAYS[way]
    table = _new_table(lake, "one", store, engine)
    follower = Completions(lake, [table])
    follower.look()
    landed: dict[int, float] = {}
    for number in range(1, count + 1):
        landed[number] = _land(lake, table, number)
        follower.wait_for_another(table)
    took = _delays(lake, table, landed, follower.look()[table])
    lake.cluster.delete("LakeTable", table, lake.namespace)
    median_s = statistics.median(took)
    print(f"{way}: readable after {took} s", flush=True)
    return {"way": way, "seconds": took, "wantedSeconds": wanted_s, "holds": median_s <= wanted_s}


def _sparse(lake: Lake, way: str, minutes: float) -> dict[str, Any]:
    """One row every half a minute: for how long pods exist, an hour."""
    store, engine, _, _ = WAYS[way]
    table = _new_table(lake, "sparse", store, engine)
    with _counted_pods(lake) as counted:
        began_s = time.monotonic()
        rows = round(minutes * 60 / SPARSE_EVERY_S)
        for number in range(1, rows + 1):
            _land(lake, table, number)
            time.sleep(max(0.0, began_s + number * SPARSE_EVERY_S - time.monotonic()))
        lasted_s = time.monotonic() - began_s
    lake.wait_for_ids(table, range(rows + 1))
    lake.cluster.delete("LakeTable", table, lake.namespace)
    per_hour = counted.pod_seconds * 3600 / lasted_s
    print(f"{way}: {per_hour:,.0f} pod-seconds an hour", flush=True)
    return {"way": way, "podSecondsPerHour": round(per_hour)}


def _many(lake: Lake, minutes: float) -> dict[str, Any]:
    """Ten tables and two workers."""
    tables = [
        _new_table(lake, f"many-{number}", {"warm": WARM}, {}, every=f"{TICK_S:.0f}s")
        for number in range(TABLES)
    ]
    landed: dict[str, dict[int, float]] = {table: {} for table in tables}
    follower = Completions(lake, tables)
    ticks = round(minutes * 60 / TICK_S)
    began_s = time.monotonic()
    for tick in range(1, ticks + 1):
        for number, table in enumerate(tables, 1):
            landed[table][tick] = _land(lake, table, tick)
            pause_s = began_s + (tick - 1 + number / TABLES) * TICK_S - time.monotonic()
            time.sleep(max(0.0, pause_s))
        follower.look()
    for table in tables:
        lake.wait_for_ids(table, range(ticks + 1))
    commits = follower.look()
    delays = [
        delay for table in tables for delay in _delays(lake, table, landed[table], commits[table])
    ]
    found = {
        "tables": TABLES,
        "rows": len(delays),
        "medianSeconds": statistics.median(delays),
        "maxSeconds": max(delays),
        "wantedSeconds": TICK_WANTED_S,
        "holds": max(delays) <= TICK_WANTED_S,
    }
    print(found, flush=True)
    return found


class Completions:
    """When the commits of some tables were complete, by instant, archived ones included."""

    def __init__(self, lake: Lake, tables: Sequence[str]) -> None:
        self._lake = lake
        self._seen: dict[str, dict[str, float]] = {table: {} for table in tables}

    def look(self) -> dict[str, dict[str, float]]:
        """All that are known by now; commits stay in the timeline for longer than between looks."""
        for table, seen in self._seen.items():
            for path in self._lake.paths(f"{table}/.hoodie/timeline/"):
                stem, _, action = path.rpartition("/")[2].partition(".")
                instant, _, completed = stem.partition("_")
                if action == "deltacommit" and completed:
                    seen[instant] = unix_s(completed)
        return self._seen

    def wait_for_another(self, table: str) -> None:
        """Wait for a commit that was not complete at the last look."""
        known = len(self._seen[table])
        self._lake.cluster.wait_until(
            lambda: len(self.look()[table]) > known,
            f"another commit of {table}",
            timeout_s=_READABLE_TIMEOUT_S,
        )


def _delays(
    lake: Lake, table: str, landed: Mapping[int, float], commits: Mapping[str, float]
) -> list[float]:
    """The seconds from the landing of each row's file to the completion of its commit, by what
    hudi-rs reads."""
    commit_of = {row["id"]: row["_hoodie_commit_time"] for row in lake.stored_rows(table)}
    return [round(commits[commit_of[number]] - landed_s, 1) for number, landed_s in landed.items()]


def unix_s(instant: str) -> float:
    """The second of an instant time, which pods write in UTC."""
    moment = datetime.strptime(instant[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    return moment.timestamp() + int(instant[14:] or 0) / 1000


@dataclass(slots=True)
class _PodCount:
    pod_seconds: float = 0.0
    ended: threading.Event = field(default_factory=threading.Event)


@contextmanager
def _counted_pods(lake: Lake) -> Iterator[_PodCount]:
    """Count the seconds for which pods of the namespace exist that have not ended."""
    counted = _PodCount()

    def count() -> None:
        before_s = time.monotonic()
        while not counted.ended.wait(1.0):
            now_s = time.monotonic()
            pods = lake.cluster.list("Pod", lake.namespace)
            alive = [pod for pod in pods if pod["status"].get("phase") in ("Pending", "Running")]
            counted.pod_seconds += len(alive) * (now_s - before_s)
            before_s = now_s

    thread = threading.Thread(target=count, daemon=True)
    thread.start()
    try:
        yield counted
    finally:
        counted.ended.set()
        thread.join()


def _new_table(
    lake: Lake,
    name: str,
    store: Mapping[str, Any],
    engine: Mapping[str, Any],
    *,
    every: str = EVERY,
) -> str:
    """A table with one row, whose first ingest is over."""
    table = f"{name}-{secrets.token_hex(2)}"
    # Workers of an earlier way may still be idle.
    lake.cluster.kubectl("delete", "job", "-n", lake.namespace, "-l", WORKER)
    changes: dict[str, Any] = {"engine": dict(store)} if store else {}
    lake.apply_store(**changes)
    _land(lake, table, 0)
    spec = lake.table(table, **({"engine": dict(engine)} if engine else {}))
    spec["spec"]["ingest"][0]["trigger"]["every"] = every
    lake.cluster.apply(spec)
    lake.wait_for_ids(table, range(1))
    return table


def _land(lake: Lake, table: str, number: int) -> float:
    """Land a file of one row; when."""
    row: Row = {"id": number, "ts": 1, "name": f"row {number}"}
    lake.land(table, f"{number:06}", [row])
    return time.time()


if __name__ == "__main__":
    main()
