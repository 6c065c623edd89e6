"""A stream for hours: memory, files and requests stay flat.

    python -m bench.topic_soak [--minutes 120] [--records-per-s 500] [--json FILE]

1. A broker, MinIO, and `tideline run` with a table of each type, each of a topic of its own.
2. Records are produced evenly: four upserts of 200,000 keys, then a delete of one of them.
3. Every minute: memory of the process, files and bytes of the tables, requests to MinIO, commits,
   records that wait.
4. At the end each table is compared with its topic by `tideline verify`.

What follows the first quarter is halved: the second half may be a tenth above the first, in the
median of memory, of files, and of requests for each commit. Quiet is not needed: no time is
measured.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from bench.process_memory import descendants
from tideline.testing.kafka_broker import KafkaBroker, build
from tideline.testing.minio_server import MinioServer

TYPES = {"merged": "MERGE_ON_READ", "copied": "COPY_ON_WRITE"}
LOOK_S = 60.0
WAIT_S = 300.0
GROWTH_MAX = 1.1
_KEYS = 200_000
_TIDELINE = [sys.executable, "-m", "tideline"]
_LAKE_TABLE = """\
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {{name: {name}}}
spec:
  location: s3://lake/{name}
  storeRef: minio
  type: {table_type}
  recordKey: [id]
  schema:
  - {{name: id, type: long}}
  - {{name: ts, type: long}}
  - {{name: customer, type: string}}
  - {{name: amount, type: double}}
  - {{name: note, type: string}}
  services:
    cleaning: {{retain: 10}}
    archiving: {{minCommits: 20, maxCommits: 30}}
    compaction: {{trigger: {{deltaCommits: 5}}}}
  ingest:
  - name: orders
    source: {{format: kafka, brokers: '{brokers}', topics: [{name}], commitEvery: 5s}}
    trigger: {{every: 1s}}
---
"""
_LAKE_STORE = """\
apiVersion: tideline.dev/v1alpha1
kind: LakeStore
metadata: {{name: minio}}
spec:
  endpoint: {endpoint}
  credentials: {{secretName: minio-credentials}}
"""


@dataclass(frozen=True, slots=True)
class Look:
    """What one minute shows, all tables together; requests and commits are those of the minute."""

    minute: int
    memory_bytes: int
    files: int
    size_bytes: int
    requests: int
    records: int
    commits: int

    @property
    def requests_of_a_commit(self) -> float:
        return self.requests / max(1, self.commits)


class Feed(threading.Thread):
    """The same records into each topic, until it is stopped."""

    def __init__(self, broker: KafkaBroker, records_per_s: int) -> None:
        super().__init__(daemon=True)
        self._producer = broker.producer(log_level=0)
        self._records_per_s = records_per_s
        self._stopped = threading.Event()
        self.records = 0

    def run(self) -> None:
        random_ = random.Random(1)
        started_s = time.monotonic()
        while not self._stopped.is_set():
            while self.records < (time.monotonic() - started_s) * self._records_per_s:
                self._send(random_)
            self._producer.poll(0.05)
        self._producer.flush()

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    def _send(self, random_: random.Random) -> None:
        number, key = self.records, random_.randrange(_KEYS)
        value = None
        if number % 5 != 4:
            row = {"id": key, "ts": number, "customer": f"customer {key % 1000}"}
            value = json.dumps({**row, "amount": number / 100, "note": "n" * (number % 90)})
        for topic in TYPES:
            self._producer.produce(topic, key=str(key), value=value)
        self.records += 1


def main() -> int:
    """Watch, print, and exit with 1 where something grows or differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=int, default=120)
    parser.add_argument("--records-per-s", type=int, default=500)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    build()
    with (
        tempfile.TemporaryDirectory(prefix="topic-soak-") as folder,
        KafkaBroker(Path(folder) / "broker") as broker,
        MinioServer({"MINIO_PROMETHEUS_AUTH_TYPE": "public"}) as minio,
    ):
        minio.create_bucket("lake")
        looks, differ = _watch(Path(folder), broker, minio, given.minutes, given.records_per_s)
    grown = _grown(looks)
    if given.json:
        given.json.write_text(json.dumps([asdict(look) for look in looks], indent=1))
    for what in (*grown, *differ):
        print(what)
    return 1 if grown or differ else 0


def _watch(
    folder: Path, broker: KafkaBroker, minio: MinioServer, minutes: int, records_per_s: int
) -> tuple[list[Look], list[str]]:
    resource = _declare(folder, broker, minio)
    environment = {**os.environ, **minio.environment()}
    with (folder / "run.log").open("wb") as log:
        run = subprocess.Popen(
            [*_TIDELINE, "run", "-f", str(resource), "--state", str(folder / "state")],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
        )
    feed = Feed(broker, records_per_s)
    feed.start()
    try:
        looks = _look_every_minute(folder, minio, run, feed, minutes)
        feed.stop()
        _wait_for_all(folder, feed)
    finally:
        run.send_signal(signal.SIGINT)
        run.wait(WAIT_S)
    differ = [name for name in TYPES if _verify(name, resource, environment)]
    return looks, [f"{name} differs from its topic" for name in differ]


def _declare(folder: Path, broker: KafkaBroker, minio: MinioServer) -> Path:
    text = ""
    for name, table_type in TYPES.items():
        broker.create_topic(name, 2)
        text += _LAKE_TABLE.format(name=name, table_type=table_type, brokers=broker.address)
    path = folder / "tables.yaml"
    path.write_text(text + _LAKE_STORE.format(endpoint=minio.endpoint), "utf-8")
    return path


def _look_every_minute(
    folder: Path, minio: MinioServer, run: subprocess.Popen[bytes], feed: Feed, minutes: int
) -> list[Look]:
    looks: list[Look] = []
    before, commits = _requests(minio), 0
    for minute in range(1, minutes + 1):
        time.sleep(LOOK_S)
        if run.poll() is not None:
            raise SystemExit(f"tideline run ended:\n{(folder / 'run.log').read_text()[-2000:]}")
        now = _requests(minio)
        objects = list(minio.client().list_objects("lake", recursive=True))
        taken = _taken(folder)
        look = Look(
            minute,
            _memory_bytes(run.pid),
            len(objects),
            sum(item.size or 0 for item in objects),
            now - before,
            sum(taken),
            len(taken) - commits,
        )
        before, commits = now, len(taken)
        looks.append(look)
        waiting = feed.records * len(TYPES) - look.records
        print(
            f"{minute:>4} min  {look.memory_bytes / 1e6:>6.0f} MB  {look.files:>5} files  "
            f"{look.size_bytes / 1e6:>6.0f} MB stored  {look.requests:>6} requests  "
            f"{look.commits:>3} commits  {waiting:>7} wait",
            flush=True,
        )
    return looks


def _taken(folder: Path) -> list[int]:
    """Records of each commit, by what `tideline run` says of it."""
    log = (folder / "run.log").read_text("utf-8")
    return [
        int(found.replace(",", ""))
        for found in re.findall(r" ([\d,]+) records? of \d+ partition", log)
    ]


def _wait_for_all(folder: Path, feed: Feed) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while sum(_taken(folder)) < feed.records * len(TYPES):
        if time.monotonic() > deadline_s:
            raise SystemExit("the tables did not get all records")
        time.sleep(1)


def _verify(name: str, resource: Path, environment: dict[str, str]) -> int:
    words = [*_TIDELINE, "verify", name, "--source", str(resource)]
    return subprocess.run(words, check=False, env=environment).returncode


def _requests(minio: MinioServer) -> int:
    """To its S3 interface since its start."""
    with urllib.request.urlopen(f"{minio.endpoint}/minio/v2/metrics/cluster", timeout=30) as answer:
        text = answer.read().decode()
    found = re.findall(r"^minio_s3_requests_total\{[^}]*\} ([\d.e+]+)$", text, re.MULTILINE)
    return int(sum(map(float, found)))


def _memory_bytes(pid: int) -> int:
    """Resident, with the processes that it started."""
    total = 0
    for each in (pid, *descendants(pid)):
        with suppress(OSError):
            status = Path(f"/proc/{each}/status").read_text("ascii")
            total += sum(1024 * int(kb) for kb in re.findall(r"VmRSS:\s+(\d+) kB", status))
    return total


def _grown(looks: Sequence[Look]) -> list[str]:
    """What is larger in the second half than in the first, the first quarter left out."""
    steady = looks[len(looks) // 4 :]
    first, second = steady[: len(steady) // 2], steady[len(steady) // 2 :]
    if not first:
        return ["too short to compare halves"]
    found = []
    for what in ("memory_bytes", "files", "requests_of_a_commit"):
        before, after = (median(getattr(look, what) for look in half) for half in (first, second))
        print(f"{what}: median {before:,.0f}, then {after:,.0f}")
        if after > before * GROWTH_MAX:
            found.append(f"{what} grew by {after / before - 1:.0%}")
    return found


if __name__ == "__main__":
    sys.exit(main())
