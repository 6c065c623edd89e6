"""A topic, the LakeTable that is made of it, and what a user compares them with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.broker_pod import ADDRESS, BrokerPod
from e2e.harness.cluster import Manifest
from e2e.harness.lake import API_VERSION, Lake

SECRET = "broker-credentials"
_SCHEMA = [
    {"name": "id", "type": "long"},
    {"name": "ts", "type": "long"},
    {"name": "name", "type": "string"},
]
_DECLARED = ("storeRef", "location", "type", "recordKey", "ordering", "schema")


class TopicTable:
    """The table `name` of a lake, and its topic at the broker, whose values are JSON."""

    def __init__(self, lake: Lake, broker: BrokerPod, name: str) -> None:
        self.name = name
        # Tests share the broker.
        self.topic = f"{lake.namespace}.{name}"
        self._lake = lake
        self._broker = broker

    def prepare(self, partitions: int = 1) -> None:
        """The topic, and the Secret by which tables of the namespace sign in."""
        self._broker.create_topic(self.topic, partitions)
        self._lake.apply_secret(self._broker.variables, SECRET)

    def apply(self, *, every: str = "1s", source: Sequence[tuple[str, Any]] = ()) -> Manifest:
        """Declare the table, with some fields of its source changed."""
        declared = {
            "format": "kafka",
            "brokers": ADDRESS,
            "topics": [self.topic],
            "protocol": "SASL_SSL",
            "mechanism": "SCRAM-SHA-512",
            "credentials": {"secretName": SECRET},
            **dict(source),
        }
        ingest = {"name": self.name, "source": declared, "trigger": {"every": every}}
        return self._lake.apply_table(self.name, schema=_SCHEMA, ingest=[ingest])

    def produce(self, numbers: Sequence[int], partition: int = 0) -> None:
        """A record for each number."""
        rows = ({"id": number, "ts": 1, "name": f"row {number}"} for number in numbers)
        records = ((str(row["id"]), json.dumps(row)) for row in rows)
        self._broker.produce(self.topic, records, partition=partition)

    @property
    def progress(self) -> Manifest:
        """What the status says of the ingest."""
        status = self._lake.get(self.name).get("status", {})
        found: Manifest = status.get("ingest", {}).get(self.name, {})
        return found

    def verify(self, folder: Path) -> dict[str, Any]:
        """What `tideline verify --source` says, outside the cluster."""
        spec = self._lake.get(self.name)["spec"]
        declared = {name: spec[name] for name in _DECLARED}
        source = {"format": "kafka", "brokers": self._broker.address, "topics": [self.topic]}
        ingest = {"name": self.name, "source": source, "trigger": {"every": "1s"}}
        resources = (
            _resource("LakeStore", spec["storeRef"], {"endpoint": self._lake.minio.local_endpoint}),
            _resource("LakeTable", self.name, {**declared, "ingest": [ingest]}),
        )
        path = folder / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump_all(resources))
        program = Path(sys.executable).with_name("tideline")
        done = subprocess.run(
            [str(program), "verify", self.name, "--source", str(path), "--json"],
            capture_output=True,
            text=True,
            env={**os.environ, **self._lake.minio.environment()},
        )
        assert done.returncode in (0, 1), done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found


def _resource(kind: str, name: str, spec: Mapping[str, Any]) -> Manifest:
    metadata = {"name": name}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": dict(spec)}
