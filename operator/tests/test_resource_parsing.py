"""Strict reading of resources: what is accepted, and what each refusal says."""

from __future__ import annotations

import dataclasses
import textwrap
import typing
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.ingest.column_type import ColumnType
from tideline_operator.resources.documents import read_documents
from tideline_operator.resources.field import rule_of
from tideline_operator.resources.ingest import BadFilePolicy, IngestOperation, SourceFormat
from tideline_operator.resources.lake_store import LakeStore
from tideline_operator.resources.lake_table import DeletionPolicy, IndexKind, LakeTable, TableType
from tideline_operator.resources.parsing import parse_resource, parse_stored, to_json_object
from tideline_operator.resources.schedule import Cron, Duration, Timestamp
from tideline_operator.resources.services import CompactionStrategy, ServiceMode
from tideline_operator.resources.status import (
    Condition,
    ConditionType,
    IngestStatus,
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
    Truth,
)

EVERYTHING = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata:
  name: flights
  namespace: lake
  labels: {team: air}
  annotations: {tideline.dev/paused: "true"}
spec:
  storeRef: minio
  location: s3://lake/flights
  format: Hudi
  type: MERGE_ON_READ
  recordKey: [carrier, flight, origin, scheduled_departure]
  partitionBy: [month]
  ordering: [updated_at]
  index: {type: BUCKET, buckets: 16}
  keyGenerator: {hiveStyle: true, urlEncode: true}
  schema:
  - {name: carrier, type: string, nullable: false}
  - {name: flight, type: int}
  - {name: origin, type: string}
  - {name: scheduled_departure, type: timestamp, description: as sold}
  - {name: month, type: string}
  - {name: updated_at, type: timestamp}
  - {name: fares, type: "map<string,decimal(10,2)>"}
  properties: {hoodie.parquet.max.file.size: "1048576"}
  ingest:
  - name: landing
    source:
      format: csv
      path: s3://lake/landing/flights/
      options: {sep: ";", nullValue: ""}
    operation: upsert
    transform: "select * from source where origin is not null"
    deleteWhen: status = 'cancelled'
    trigger: {cron: "*/5 * * * *"}
    onBadFile: Fail
    maxFilesPerCommit: 7
  services:
    mode: Auto
    compaction: {trigger: {strategy: NUM_COMMITS, deltaCommits: 5}}
    clustering: {enabled: true, sortBy: [carrier], everyCommits: 8}
    cleaning: {policy: KEEP_LATEST_COMMITS, retain: 10}
    archiving: {minCommits: 20, maxCommits: 30}
    maintenanceWindow: "* 0-6 * * *"
  savepoints: [{name: before-migration}]
  restoreTo: null
  rerun: {compaction: 3, landing: 1}
  suspend: false
  fenced: false
  deletionPolicy: Delete
  resources:
    driver: {cpu: 500m, memory: 1Gi}
    executor: {cpu: 500m, memory: 2Gi, min: 0, max: 4}
  podTemplate: {spec: {nodeSelector: {disk: fast}}}
"""

MINIMAL = """
apiVersion: tideline.dev/v1alpha1
kind: LakeTable
metadata: {name: people}
spec:
  location: table
  recordKey: [id]
  ingest:
  - name: landing
    source: {format: parquet, path: landing}
"""

MULTIPLYING_ALIASES = "a: &a [0, 0, 0, 0, 0, 0, 0, 0, 0]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcde", "bcdef", strict=True)
)


def parse(text: str) -> LakeTable:
    (document,) = read_documents(textwrap.dedent(text), file="laketable.yaml")
    return parse_resource(LakeTable, document)


def complaints(text: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parse(text)
    assert raised.value.exit_code == 2
    return str(raised.value).splitlines()


def with_spec(lines: str) -> str:
    return MINIMAL + textwrap.indent(textwrap.dedent(lines).strip(), "  ") + "\n"


def with_ingest(lines: str) -> str:
    return MINIMAL + textwrap.indent(textwrap.dedent(lines).strip(), "    ") + "\n"


def test_every_documented_field_is_read() -> None:
    table = parse(EVERYTHING)
    spec = table.spec
    assert str(table.metadata) == "lake/flights"
    assert table.metadata.is_paused
    assert spec.type is TableType.MERGE_ON_READ
    assert spec.record_key == ("carrier", "flight", "origin", "scheduled_departure")
    assert spec.index is not None
    assert (spec.index.type, spec.index.buckets) == (IndexKind.BUCKET, 16)
    assert spec.key_generator.hive_style
    assert spec.schema[6].type == ColumnType.parse("map<string, decimal(10, 2)>")
    assert not spec.schema[0].nullable
    (ingest,) = spec.ingest
    assert ingest.source.format is SourceFormat.CSV
    assert ingest.source.options == {"sep": ";", "nullValue": ""}
    assert ingest.operation is IngestOperation.UPSERT
    assert ingest.trigger.cron == Cron("*/5 * * * *")
    assert ingest.on_bad_file is BadFilePolicy.FAIL
    assert ingest.max_files_per_commit == 7
    assert spec.services.mode is ServiceMode.AUTO
    assert spec.services.compaction.trigger.strategy is CompactionStrategy.NUM_COMMITS
    assert spec.services.maintenance_window == Cron("* 0-6 * * *")
    assert spec.restore_to is None
    assert spec.rerun == {"compaction": 3, "landing": 1}
    assert spec.deletion_policy is DeletionPolicy.DELETE
    assert spec.resources.executor.max == 4
    assert spec.pod_template == {"spec": {"nodeSelector": {"disk": "fast"}}}


def test_what_is_left_out_has_its_default() -> None:
    spec = parse(MINIMAL).spec
    assert spec.type is TableType.COPY_ON_WRITE
    assert spec.ingest[0].trigger.every == Duration(30_000)
    assert spec.ingest[0].on_bad_file is BadFilePolicy.QUARANTINE
    assert spec.deletion_policy is DeletionPolicy.RETAIN


def test_a_resource_survives_the_way_to_json_and_back() -> None:
    table = parse(EVERYTHING)
    assert parse_stored(LakeTable, to_json_object(table)) == table


def test_a_store_is_read() -> None:
    (document,) = read_documents(
        textwrap.dedent(
            """
            apiVersion: tideline.dev/v1alpha1
            kind: LakeStore
            metadata: {name: minio, namespace: lake}
            spec:
              endpoint: http://minio.lake.svc:9000
              region: us-east-1
              pathStyle: true
              credentials: {secretName: minio-credentials}
              tls: {caSecretName: minio-ca}
            """
        ),
        file="store.yaml",
    )
    store = parse_resource(LakeStore, document)
    assert store.spec.endpoint == "http://minio.lake.svc:9000"
    assert store.spec.credentials is not None
    assert store.spec.credentials.secret_name == "minio-credentials"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            with_ingest("trigger: {every: 30 sec}"),
            "laketable.yaml, document 1, line 11: spec.ingest[0].trigger.every: '30 sec'; "
            "allowed: a whole number and ms, s, m, h or d, such as 30s or 5m",
        ),
        (with_ingest("trigger: {every: 30}"), "trigger.every: 30 is read as a number; allowed: a"),
        (with_ingest("trigger: {cron: '61 * * * *'}"), "trigger.cron: '61 * * * *'; '61': allowed"),
        (
            with_ingest("trigger: {every: 1m, once: true}"),
            "spec.ingest[0].trigger: give exactly one of every, cron and once",
        ),
        (with_ingest("trigger: {}"), "spec.ingest[0].trigger: give exactly one of every, cron"),
        (
            with_ingest("operation: merge"),
            "spec.ingest[0].operation: 'merge'; allowed: upsert, insert, bulk_insert, delete",
        ),
        (
            with_ingest("operation: Upsert"),
            "'Upsert'; allowed: upsert, insert, bulk_insert, delete, perhaps upsert",
        ),
        (
            with_ingest("onBadFile: skip"),
            "spec.ingest[0].onBadFile: 'skip'; allowed: Quarantine, F",
        ),
        (
            with_ingest("maxFilesPerCommit: 0"),
            "maxFilesPerCommit: 0; allowed: a whole number from 1",
        ),
        (
            with_ingest("maxFilesPerCommit: many"),
            "maxFilesPerCommit: 'many'; allowed: a whole numb",
        ),
        (with_ingest("maxFilesPerCommit: true"), "true is read as true or false; allowed: a whole"),
        (
            with_ingest("maxFilePerCommit: 3"),
            "maxFilePerCommit: no such field, did you mean maxFil",
        ),
        (
            with_ingest("operation: delete\ndeleteWhen: gone"),
            "spec.ingest[0].deleteWhen: only the operation upsert can delete some of its rows",
        ),
        (with_spec("recordkey: [id]"), "spec.recordkey: no such field, did you mean recordKey?"),
        (with_spec("type: COW"), "spec.type: 'COW'; allowed: COPY_ON_WRITE, MERGE_ON_READ"),
        (with_spec("partitionBy: month"), "spec.partitionBy: 'month'; allowed: a list"),
        (with_spec("partitionBy: [a, a]"), "spec.partitionBy[1]: 'a' is there twice"),
        (
            with_spec("ordering: ['not a column']"),
            "spec.ordering[0]: 'not a column'; allowed: a col",
        ),
        (with_spec("ordering: ['']"), "spec.ordering[0]: is empty"),
        (with_spec("suspend: perhaps"), "spec.suspend: 'perhaps'; allowed: true or false"),
        (
            with_spec("index: {type: HASH}"),
            "spec.index.type: 'HASH'; allowed: SIMPLE, BLOOM, GLOBAL_",
        ),
        (
            with_spec("index: {type: BLOOM, buckets: 4}"),
            "spec.index.buckets: only a BUCKET index has",
        ),
        (with_spec("index: {}"), "spec.index.type: is required"),
        (
            with_spec("services: {mode: Off}"),
            'mode: Off is read as true or false; write "Off" in quo',
        ),
        (
            with_spec("services: {archiving: {minCommits: 30, maxCommits: 30}}"),
            "spec.services.archiving.minCommits: must be less than maxCommits (30)",
        ),
        (
            with_spec("services: {cleaning: {retain: 25}}"),
            "spec.services.archiving.minCommits: must be greater than cleaning.retain (25)",
        ),
        (
            with_spec("services: {maintenanceWindow: nightly}"),
            "maintenanceWindow: 'nightly'; allowed",
        ),
        (
            with_spec("resources: {driver: {memory: 2GB}}"),
            "driver.memory: '2GB'; allowed: a Kubernetes",
        ),
        (
            with_spec("resources: {executor: {min: 3, max: 2}}"),
            "executor.min: must not be greater than",
        ),
        (
            with_spec("rerun: {compactoin: 1}"),
            "spec.rerun.compactoin: nothing of that name; allowed",
        ),
        (
            with_spec("rerun: {compaction: '1'}"),
            "spec.rerun.compaction: '1'; allowed: a whole number",
        ),
        (
            with_spec("properties: {hoodie.a.b: 5}"),
            "spec.properties.hoodie.a.b: 5 is read as a number",
        ),
        (
            with_spec("properties: {spark.x: y}"),
            "spec.properties.spark.x: only hoodie.* and tideline.*",
        ),
        (
            with_spec("keyGenerator: {type: TIMESTAMP}"),
            "keyGenerator.timestamp: is needed for type TIM",
        ),
        (with_spec("podTemplate: [a]"), "spec.podTemplate: a list; allowed: a mapping"),
        (
            with_spec("schema: [{name: id, type: text}]"),
            "spec.schema[0].type: 'text'; 'text' is no col",
        ),
        (
            with_spec("schema: [{name: x, type: int}]"),
            "spec.recordKey[0]: spec.schema has no column 'id'",
        ),
        (
            with_spec("format: Iceberg"),
            "spec.ingest: an Iceberg table is only maintained; others write",
        ),
        (
            MINIMAL.replace("location: table", "location: s3://b/t"),
            "spec.storeRef: is needed for an s3",
        ),
        (
            MINIMAL.replace("recordKey: [id]", ""),
            "spec.recordKey: is needed: the columns that identify",
        ),
        (
            MINIMAL.replace("name: people", "name: People"),
            "metadata.name: 'People'; allowed: lower-ca",
        ),
        (MINIMAL.replace("{name: people}", "{}"), "metadata.name: is required"),
        (
            MINIMAL.replace("landing}", "landing, options: [x]}"),
            "source.options: a list; allowed: a map",
        ),
    ],
)
def test_a_refusal_names_the_field_the_value_and_what_is_allowed(text: str, complaint: str) -> None:
    (line,) = complaints(text)
    assert complaint in line


def test_all_problems_of_a_document_are_reported_at_once() -> None:
    lines = complaints(with_spec("type: COW\nsuspend: 1\nbogus: 2"))
    assert len(lines) == 3
    assert [line.split(": ")[1] for line in lines] == ["spec.bogus", "spec.type", "spec.suspend"]


def test_credentials_are_refused_and_never_repeated() -> None:
    (line,) = complaints(
        MINIMAL.replace("landing}", "landing, options: {fs.s3a.secret.key: hunter2}}")
    )
    assert "credentials belong in the environment or in a Secret" in line
    assert "hunter2" not in line


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\nb: [", "laketable.yaml: no valid YAML: line 2"),
        ("a: 1\na: 2", "laketable.yaml, line 2: 'a' is there twice"),
        ("? [a]\n: 1", "keys must be plain text"),
        ("a: 2026-99-99", "laketable.yaml, line 1: '2026-99-99' is no valid value"),
        ("a: &x [*x]", "nested too deeply"),
        (MULTIPLYING_ALIASES, "too large"),
    ],
)
def test_what_is_no_honest_yaml_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=r"laketable\.yaml") as raised:
        read_documents(text, file="laketable.yaml")
    assert complaint in str(raised.value)


def test_documents_are_counted_and_empty_ones_left_out() -> None:
    documents = read_documents("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n", file="f")
    assert [(item.number, item.value) for item in documents] == [(2, {"a": 1}), (4, {"b": 2})]


def test_keys_keep_their_spelling() -> None:
    (document,) = read_documents("on: 1\n1: 2\nyes: 3", file="f")
    assert document.value == {"on": 1, "1": 2, "yes": 3}


def test_a_status_survives_the_way_to_json_and_back() -> None:
    status = LakeTableStatus(
        observed_generation=3,
        conditions=(
            Condition(
                type=ConditionType.READY,
                status=Truth.TRUE,
                reason="Current",
                last_transition_time=Timestamp(1_700_000_000_123),
            ),
        ),
        operations=(
            OperationStatus(
                id="t-ingest-1",
                kind="ingest",
                phase=OperationPhase.FAILED,
                started_at=Timestamp(1_700_000_000_000),
                retry_at=Timestamp(1_700_000_030_000),
            ),
        ),
        ingest={"landing": IngestStatus(lag_files=4)},
    )
    assert parse_stored(LakeTableStatus, to_json_object(status)) == status


def test_a_status_of_another_version_is_read_as_far_as_it_is_known() -> None:
    stored = {"observedGeneration": 1, "somethingNew": {"a": 1}}
    assert parse_stored(LakeTableStatus, stored) == LakeTableStatus(observed_generation=1)
    assert parse_stored(LakeTableStatus, {"operations": "gone"}) is None
    assert parse_stored(LakeTableStatus, None) is None


def test_every_field_of_a_resource_is_described() -> None:
    seen: set[type] = set()

    def walk(kind: Any) -> None:
        for part in typing.get_args(kind):
            walk(part)
        if dataclasses.is_dataclass(kind) and not hasattr(kind, "parse") and kind not in seen:
            seen.add(typing.cast("type", kind))
            hints = typing.get_type_hints(kind)
            for field in dataclasses.fields(kind):
                assert rule_of(field).description, f"{kind}.{field.name}"
                walk(hints[field.name])

    walk(LakeTable)
    walk(LakeStore)
    assert len(seen) > 25
