"""Records of a topic as rows of a table: core-seconds beside a floor, and beside Hudi.

    python -m bench.topic_ingest [--records N] [--rounds N] [--wait MINUTES] [--json FILE]

1. The floor consumes the topic with the same client, parses the values and drops them.
2. Ours is `tideline run --once`, in commits of 100,000 records.
3. Hudi's side is a warm Spark (`hudi_topic`): its processor time begins after the first commit.

Seconds are those of the processor, for a million records. What the start of processes takes is no
part of them: of the first two it is the difference between the topic and one with a fifth of its
records. At most three times the floor, and a tenth of Hudi's, are wanted. Modules are compiled
before: in a release they are.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.measurement import Claim, Series, close_report
from bench.quiet import wait_for_quiet
from tideline.spark.session.connectors import MavenArtifact
from tideline.testing.kafka_broker import KafkaBroker
from tideline.testing.maven_jars import fetched_jars
from tideline.testing.peer_environment import PeerEnvironment, prepare_hudi_peer
from tideline.testing.schema_registry import SchemaRegistry, schema_registry

RECORDS = 1_000_000
PARTITIONS = 4
RECORDS_OF_A_COMMIT = 100_000
_KEYS = 400_000
_SPARK_JARS = (
    MavenArtifact("org.apache.spark", "spark-sql-kafka-0-10_2.12", "3.5.7", without=()),
    MavenArtifact("org.apache.spark", "spark-avro_2.12", "3.5.7", without=()),
)
_KINDS = {"merge-on-read": "MERGE_ON_READ", "copy-on-write": "COPY_ON_WRITE"}
_FIELDS = ("id", "ts", "customer", "amount", "note")
_AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "ts", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": "string"},
    ],
}
_DDL = "id bigint, ts bigint, customer string, amount double, note string"
_LAKE_TABLE = """\
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {{name: orders}}
spec:
  location: {table}
  type: {table_type}
  recordKey: [id]
  ordering: [ts]
  schema:
  - {{name: id, type: long}}
  - {{name: ts, type: long}}
  - {{name: customer, type: string}}
  - {{name: amount, type: double}}
  - {{name: note, type: string}}
  ingest:
  - name: orders
    source: {source}
    trigger: {{every: 1s}}
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with the same rows in one of the formats of values."""

    name: str
    brokers: str
    records: int
    registry: str = ""

    @property
    def source(self) -> str:
        """As a LakeTable declares it."""
        found = {
            "format": "kafka",
            "brokers": self.brokers,
            "topics": [self.name],
            "maxRecordsPerCommit": RECORDS_OF_A_COMMIT,
        }
        if self.registry:
            found |= {"value": "avro", "schemaRegistry": self.registry}
        return json.dumps(found)


_Topics = tuple[Topic, ...]
"""With a fifth of the records, and with all."""


def main() -> int:
    """Measure, print, and exit as `close_report` says."""
    if sys.argv[1:2] == ["floor"]:
        return _consume(*sys.argv[2:])
    parser = argparse.ArgumentParser(description="Records of a topic into a table")
    parser.add_argument("--records", type=int, default=RECORDS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--wait", type=float, default=10, help="minutes to wait for quiet")
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    load, claims = measure(chosen.records, chosen.rounds, chosen.wait * 60)
    return close_report(claims, (), load_at_start=load, json_path=chosen.json)


def measure(records: int, rounds: int, quiet_s: float) -> tuple[float, list[Claim]]:
    """The load once the topics are there, and what was measured."""
    with _made_topics(records) as (folder, of_form):
        load = wait_for_quiet(quiet_s)
        return load, _measure(folder, of_form, rounds)


def _measure(folder: Path, of_form: Mapping[str, _Topics], rounds: int) -> list[Claim]:
    """The sides by turns; a first round is not counted."""
    sides: dict[str, Callable[[int], float]] = {
        **{f"floor, {form}": partial(_floors, topics) for form, topics in of_form.items()},
        **{
            f"{who}, {form}, {kind}": partial(side, folder, topics, kind)
            for form, topics in of_form.items()
            for kind in _KINDS
            for who, side in (("ours", _ours), ("hudi", _hudi))
        },
    }
    series = {name: Series(name) for name in sides}
    for turn in range(rounds + 1):
        for name, side in sides.items():
            cpu_s = side(turn)
            print(f"{name:<28} {cpu_s:>7.2f} core-seconds for a million records", flush=True)
            if turn:
                series[name].add(cpu_s)
    return [
        *(_within(f"floor, {form}", f"ours, {form}, merge-on-read", series) for form in of_form),
        *(
            _faster(f"hudi, {form}, {kind}", f"ours, {form}, {kind}", series)
            for form in of_form
            for kind in _KINDS
        ),
    ]


def _within(peer: str, ours: str, series: Mapping[str, Series]) -> Claim:
    return Claim(f"{ours}, against the floor", series[ours], series[peer], within=3)


def _faster(peer: str, ours: str, series: Mapping[str, Series]) -> Claim:
    return Claim(f"{ours}, against Hudi", series[ours], series[peer], faster_by=10)


def _floors(topics: _Topics, _turn: int) -> float:
    return _of_records(topics, _floor)


def _of_records(topics: _Topics, spent: Callable[[Topic], float]) -> float:
    """What a million records take, without what the start of a process does."""
    few, all_records = topics
    difference_s = spent(all_records) - spent(few)
    return difference_s * 1e6 / (all_records.records - few.records)


def _floor(topic: Topic) -> float:
    return _spent(
        [sys.executable, "-m", "bench.topic_ingest", "floor", topic.brokers, topic.name,
         str(topic.records), topic.registry]
    )  # fmt: skip


def _ours(folder: Path, topics: _Topics, kind: str, turn: int) -> float:
    return _of_records(topics, lambda topic: _run(folder, topic, _KINDS[kind], turn))


def _run(folder: Path, topic: Topic, table_type: str, turn: int) -> float:
    table = folder / f"ours-{topic.name}-{table_type}-{turn}"
    spec = folder / f"{table.name}.yaml"
    spec.write_text(_LAKE_TABLE.format(table=table, table_type=table_type, source=topic.source))
    command = [sys.executable, "-m", "tideline", "run", "-f", str(spec), "--once"]
    return _spent([*command, "--state", str(folder / f"state-{table.name}")])


def _hudi(folder: Path, topics: _Topics, kind: str, turn: int) -> float:
    """Of a million records in the commits after the first."""
    peer, topic = prepare_hudi_peer(), topics[-1]
    jars = [peer.jar, *fetched_jars("spark-topics-3.5.7", _SPARK_JARS).glob("*.jar")]
    each = RECORDS_OF_A_COMMIT // PARTITIONS
    commits = topic.records // RECORDS_OF_A_COMMIT
    ends = [{str(p): n * each for p in range(PARTITIONS)} for n in range(commits + 1)]
    given = {
        "brokers": topic.brokers,
        "topic": topic.name,
        "table": str(folder / f"hudi-{topic.name}-{kind}-{turn}"),
        "jars": [str(jar) for jar in jars],
        "ends": ends,
        "schema": json.dumps(_AVRO) if topic.registry else _DDL,
        "is_avro": bool(topic.registry),
        "options": {
            "hoodie.table.name": "orders",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.table.type": _KINDS[kind],
            "hoodie.datasource.write.operation": "upsert",
            "hoodie.compact.inline": "false",
        },
    }
    done = subprocess.run(
        [str(peer.python), str(Path(__file__).with_name("hudi_topic.py")), json.dumps(given)],
        env=PeerEnvironment.process_environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    spent = json.loads(done.stdout.strip().splitlines()[-1])
    return float(spent["cpu_s"]) * 1e6 / ((commits - 1) * RECORDS_OF_A_COMMIT)


def _spent(command: Sequence[str]) -> float:
    """Processor seconds of a process, from its start to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    # Without the first, each process would compile every module again.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(Path(__file__).resolve().parents[2] / "out/bytecode")
    subprocess.run(command, check=True, capture_output=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _consume(brokers: str, topic: str, records: str, registry: str = "") -> int:
    """The floor: each value is consumed and parsed, and nothing is kept."""
    import io

    import fastavro
    import pyarrow.json as pj
    from confluent_kafka import Consumer, TopicPartition

    schema = fastavro.parse_schema(_AVRO)
    consumer = Consumer(
        {"bootstrap.servers": brokers, "group.id": "floor", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    left = int(records)
    while left:
        values = [message.value() or b"" for message in consumer.consume(min(10_000, left), 1.0)]
        left -= len(values)
        if registry:
            for value in values:
                fastavro.schemaless_reader(io.BytesIO(value[5:]), schema, None)
        elif values:
            pj.read_json(io.BytesIO(b"\n".join(values)))
    consumer.close()
    return 0


@contextmanager
def _made_topics(records: int) -> Iterator[tuple[Path, Mapping[str, _Topics]]]:
    with (
        tempfile.TemporaryDirectory(prefix="bench-topic-") as name,
        KafkaBroker(Path(name) / "kafka") as broker,
        schema_registry() as registry,
    ):
        number = registry.register(_AVRO)
        counts = records // 5, records
        of_form = {
            form: tuple(
                Topic(f"{form.lower()}-{count}", broker.address, count, address) for count in counts
            )
            for form, address in (("JSON", ""), ("Avro", registry.address))
        }
        for topics in of_form.values():
            for topic in topics:
                _produce(topic, broker, registry, number)
        yield Path(name), of_form


def _produce(topic: Topic, broker: KafkaBroker, registry: SchemaRegistry, number: int) -> None:
    broker.create_topic(topic.name, PARTITIONS)
    for partition in range(PARTITIONS):
        rows = list(_rows(partition, topic.records // PARTITIONS))
        values: list[Any] = [
            registry.encode(number, row) if topic.registry else json.dumps(row) for row in rows
        ]
        keys = (str(row["id"]) for row in rows)
        broker.produce(topic.name, list(zip(keys, values, strict=True)), partition=partition)


def _rows(partition: int, count: int) -> Iterator[dict[str, Any]]:
    """Keys that repeat, each in one partition."""
    dice = random.Random(partition)
    for number in range(count):
        key = dice.randrange(_KEYS // PARTITIONS) * PARTITIONS + partition
        note = f"{dice.getrandbits(320):080x}"
        values = (key, number, f"customer-{key % 5_000}", dice.random() * 1_000, note)
        yield dict(zip(_FIELDS, values, strict=True))


if __name__ == "__main__":
    sys.exit(main())
