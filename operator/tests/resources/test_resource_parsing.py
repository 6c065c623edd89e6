"""Strict reading of resources: what is accepted, and the message of each refusal."""

from __future__ import annotations

import dataclasses
import textwrap
import typing
from collections.abc import Mapping
from typing import Any

import pytest

from tideline.errors import ConfigError
from tideline.hudi.index.index_type import IndexType
from tideline.hudi.services.compaction.config import CompactionTrigger
from tideline.hudi.table.table_config import TableType
from tideline.ingest.column_type import ColumnType
from tideline_operator.resources.documents import read_documents
from tideline_operator.resources.field import rule_of
from tideline_operator.resources.iceberg import CatalogType, OrphanMode, RewriteStrategy
from tideline_operator.resources.ingest import (
    BadFilePolicy,
    BadRowPolicy,
    IngestOperation,
)
from tideline_operator.resources.lake_store import LakeStore
from tideline_operator.resources.lake_table import (
    DeletionPolicy,
    LakeTable,
    Publication,
    TableFormat,
)
from tideline_operator.resources.parsing import (
    parse_object,
    parse_resource,
    parse_stored,
    to_json_object,
)
from tideline_operator.resources.schedule import Cron, Duration, Timestamp
from tideline_operator.resources.services import ServiceMode
from tideline_operator.resources.sources.source import SourceFormat
from tideline_operator.resources.status import (
    Condition,
    ConditionStatus,
    ConditionType,
    IngestStatus,
    LakeTableStatus,
    OperationPhase,
    OperationStatus,
)
from tideline_operator.resources.store_status import BucketStatus, LakeStoreStatus
from tideline_operator.resources.tables_status import LakeCatalogStatus
from tideline_operator.resources.uniqueness import Uniqueness
from tideline_operator.testing.refused_iceberg_specs import ICEBERG_REFUSALS
from tideline_operator.testing.refused_indexes import INDEX_REFUSALS
from tideline_operator.testing.refused_pod_templates import POD_REFUSALS
from tideline_operator.testing.refused_postgres import POSTGRES_REFUSALS
from tideline_operator.testing.refused_specs import REFUSALS, RefusedSpec, with_spec
from tideline_operator.testing.refused_stores import CLOUD_STORES, MIXED_STORES
from tideline_operator.testing.refused_topics import TOPIC_REFUSALS
from tideline_operator.testing.resource_examples import (
    EVERYTHING,
    ICEBERG,
    ICEBERG_CATALOG,
    MINIMAL,
)

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


def test_every_documented_field_is_read() -> None:
    table = parse(EVERYTHING)
    spec = table.spec
    assert str(table.metadata) == "lake/flights"
    assert table.metadata.is_paused
    assert spec.type is TableType.MERGE_ON_READ
    assert spec.record_key == ("carrier", "flight", "origin", "scheduled_departure")
    assert spec.index is not None
    assert (spec.index.type, spec.index.buckets) == (IndexType.BUCKET, 16)
    assert spec.key_generator.hive_style
    assert spec.schema[6].type == ColumnType.parse("map<string, decimal(10, 2)>")
    assert not spec.schema[0].nullable
    (ingest,) = spec.ingest
    assert ingest.source.format is SourceFormat.CSV
    assert ingest.source.options == {"sep": ";", "nullValue": ""}
    assert ingest.operation is IngestOperation.UPSERT
    assert ingest.trigger.cron == Cron("*/5 * * * *")
    assert ingest.on_bad_file is BadFilePolicy.FAIL
    assert (ingest.on_bad_row, ingest.max_bad_rows) == (BadRowPolicy.QUARANTINE, 20)
    assert (ingest.renamed_from, ingest.source.moved_from) == (
        "arrivals",
        "s3://lake/landing/old/",
    )
    assert ingest.max_files_per_commit == 7
    assert spec.services.mode is ServiceMode.AUTO
    assert spec.services.compaction.trigger.strategy is CompactionTrigger.NUM_COMMITS
    assert spec.services.maintenance_window == Cron("* 0-6 * * *")
    assert spec.timezone == "America/Los_Angeles"
    assert spec.publish == (Publication.ICEBERG,)
    assert spec.uniqueness is Uniqueness.PARTITION
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


def test_every_field_of_an_iceberg_table_is_read() -> None:
    spec = parse(ICEBERG).spec
    assert spec.format is TableFormat.ICEBERG
    rewrite, orphans = spec.services.rewrite_data_files, spec.services.remove_orphan_files
    assert rewrite is not None
    assert rewrite.strategy is RewriteStrategy.SORT
    assert rewrite.sort_by == ("region", "amount desc nulls last")
    assert (rewrite.target_file_size, rewrite.min_input_files) == ("256Mi", 4)
    assert rewrite.filter == "day >= '2026-01-01'"
    assert (rewrite.partial_progress.enabled, rewrite.partial_progress.max_commits) == (True, 4)
    assert rewrite.options == {"delete-file-threshold": "2"}
    assert orphans is not None
    assert (orphans.mode, orphans.older_than) == (OrphanMode.AUTO, Duration(4 * 86_400_000))
    assert spec.services.expire_snapshots is not None
    assert spec.services.expire_snapshots.retain_last == 3


def test_a_catalog_stands_for_a_location() -> None:
    spec = parse(ICEBERG_CATALOG).spec
    assert spec.location == ""
    assert spec.catalog is not None
    assert (spec.catalog.type, spec.catalog.table) == (CatalogType.REST, "sales.orders")


@pytest.mark.parametrize("text", [EVERYTHING, ICEBERG, ICEBERG_CATALOG])
def test_a_resource_survives_a_round_trip_through_json(text: str) -> None:
    table = parse(text)
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


@pytest.mark.parametrize("spec", CLOUD_STORES, ids=str)
def test_a_store_of_another_cloud_is_read(spec: Mapping[str, object]) -> None:
    value = {"apiVersion": "tideline.dev/v1alpha1", "kind": "LakeStore",
             "metadata": {"name": "cloud"}, "spec": spec}  # fmt: skip
    store = parse_object(LakeStore, value)
    assert store.spec.scheme == ("gs" if "gcs" in spec else "abfss" if "azure" in spec else "s3")
    assert parse_object(LakeStore, to_json_object(store)) == store


@pytest.mark.parametrize(("spec", "field"), MIXED_STORES, ids=str)
def test_what_is_of_one_kind_of_store_is_refused_beside_another(
    spec: Mapping[str, object], field: str
) -> None:
    value = {"apiVersion": "tideline.dev/v1alpha1", "kind": "LakeStore",
             "metadata": {"name": "cloud"}, "spec": spec}  # fmt: skip
    with pytest.raises(ConfigError, match=rf"^spec\.{field}: ") as caught:
        parse_object(LakeStore, value)
    assert "of-the-user" not in str(caught.value)


@pytest.mark.parametrize(
    "refusal",
    (
        *REFUSALS,
        *ICEBERG_REFUSALS,
        *INDEX_REFUSALS,
        *TOPIC_REFUSALS,
        *POSTGRES_REFUSALS,
        *POD_REFUSALS,
    ),
    ids=str,
)
def test_a_refusal_names_the_field_the_value_and_what_is_allowed(refusal: RefusedSpec) -> None:
    (line,) = complaints(refusal.text)
    assert refusal.parser in line


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
        ("a: 1\nb: [", "laketable.yaml: not valid YAML: line 2"),
        ("a: 1\na: 2", "laketable.yaml, line 2: 'a' appears twice"),
        ("? [a]\n: 1", "keys must be plain text"),
        ("a: 2026-99-99", "laketable.yaml, line 1: '2026-99-99' is not a valid value"),
        ("a: &x [*x]", "nested too deeply"),
        (MULTIPLYING_ALIASES, "too large"),
    ],
)
def test_invalid_yaml_is_refused_with_its_place(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=r"laketable\.yaml") as raised:
        read_documents(text, file="laketable.yaml")
    assert complaint in str(raised.value)


def test_documents_are_counted_and_empty_ones_left_out() -> None:
    documents = read_documents("---\n---\na: 1\n---\n# nothing\n---\nb: 2\n", file="f")
    assert [(item.number, item.value) for item in documents] == [(2, {"a": 1}), (4, {"b": 2})]


def test_keys_keep_their_spelling() -> None:
    (document,) = read_documents("on: 1\n1: 2\nyes: 3", file="f")
    assert document.value == {"on": 1, "1": 2, "yes": 3}


def test_a_status_survives_a_round_trip_through_json() -> None:
    status = LakeTableStatus(
        observed_generation=3,
        conditions=(
            Condition(
                type=ConditionType.READY,
                status=ConditionStatus.TRUE,
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


def test_a_bucket_without_a_problem_is_read_back() -> None:
    status = LakeStoreStatus(observed_generation=1, buckets={"lake": BucketStatus()})
    stored = to_json_object(status)
    assert stored["buckets"] == {"lake": {"problem": ""}}
    assert parse_stored(LakeStoreStatus, stored) == status
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


def test_no_part_of_a_status_is_ever_an_empty_object() -> None:
    """Applied over a full one, the API server makes an empty object null, and refuses that."""
    parts: set[type] = set()

    def walk(kind: Any) -> None:
        for part in typing.get_args(kind):
            walk(part)
        if dataclasses.is_dataclass(kind) and not hasattr(kind, "parse"):
            parts.add(typing.cast("type", kind))
            for hint in typing.get_type_hints(kind).values():
                walk(hint)

    for status in (LakeTableStatus, LakeStoreStatus, LakeCatalogStatus):
        walk(status)
    wholes = {LakeTableStatus, LakeStoreStatus, LakeCatalogStatus}
    for part in parts - wholes:
        fields = dataclasses.fields(part)
        is_required = any(
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
            for field in fields
        )
        assert is_required or to_json_object(part()), part.__name__
    assert len(parts) > 15
