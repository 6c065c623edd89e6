"""Tables with columns of types that are not rewritten: shown, expired, cleaned, not broken."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tideline.cli.iceberg_show import describe_table
from tideline.errors import UnsupportedTableError
from tideline.iceberg.commit.metadata_writer import MetadataWriter
from tideline.iceberg.commit.snapshot_producer import commit_snapshot, new_snapshot_id
from tideline.iceberg.manifest.manifest_reading import entries_of, manifests_of
from tideline.iceberg.metadata.schema import Schema
from tideline.iceberg.metadata.stored_columns import unstorable_columns
from tideline.iceberg.services.expire_snapshots.execute import execute_expire
from tideline.iceberg.services.expire_snapshots.plan import ExpireOptions
from tideline.iceberg.services.remove_orphan_files.execute import execute_orphans, plan_orphans
from tideline.iceberg.services.remove_orphan_files.plan import OrphanOptions
from tideline.iceberg.services.rewrite_data_files.in_process import write_groups_here
from tideline.iceberg.services.rewrite_data_files.left_files import Reason
from tideline.iceberg.services.rewrite_data_files.options import RewriteOptions
from tideline.iceberg.services.rewrite_data_files.run import rewrite_data_files
from tideline.iceberg.services.rewrite_data_files.table_plan import plan_table_rewrite
from tideline.iceberg.services.rewrite_manifests.execute import execute_manifests
from tideline.iceberg.services.rewrite_manifests.plan import ManifestOptions
from tideline.iceberg.table.open_table import IcebergTable
from tideline.testing.fake_clock import FakeClock
from tideline.testing.iceberg_audit import referenced, stored
from tideline.testing.iceberg_model import IcebergModel
from tideline.testing.iceberg_row_delta import RowDelta
from tideline.testing.iceberg_values import data_file

ALL = RewriteOptions.parse({"rewrite-all": "true"}, properties={})
LATER = FakeClock(time.time_ns() // 1_000_000 + 30 * 86_400_000)
GEOMETRY, GEOGRAPHY = "geometry(srid:4326)", "geography(OGC:CRS84, spherical)"


def listed(kind: Any) -> dict[str, Any]:
    return {"type": "list", "element-id": 20, "element": kind, "element-required": False}


def mapped(kind: Any) -> dict[str, Any]:
    names = {"type": "map", "key-id": 20, "key": "string", "value-id": 21}
    return {**names, "value": kind, "value-required": False}


def struct(*kinds: Any) -> dict[str, Any]:
    fields = [field(30 + number, f"f{number}", kind) for number, kind in enumerate(kinds)]
    return {"type": "struct", "fields": fields}


def field(number: int, name: str, kind: Any) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": kind}


def table(kind: Any, *transforms: str) -> IcebergModel:
    """Of version 3, with a column `x`; its spec 5 has `transforms` of it."""
    model = IcebergModel.create(format_version=3)
    document = model.metadata().json()
    for schema in document["schemas"]:
        schema["fields"].append(field(10, "x", kind))
    document["last-column-id"] = 99
    parts = [
        {"name": f"p{at}", "transform": name, "source-id": 10, "field-id": 1100 + at}
        for at, name in enumerate(transforms)
    ]
    document["partition-specs"].append({"spec-id": 5, "fields": parts})
    document["last-partition-id"] = 1199
    model.location.open().put("metadata/v1.metadata.json", json.dumps(document).encode())
    for start in range(0, 8, 4):
        model.append(range(start, start + 4))
    return model


OPAQUE = ["variant", "geometry", GEOMETRY, "geography", GEOGRAPHY]
REFUSED = [
    *((kind, f"x ({kind})") for kind in OPAQUE),
    (struct("int", "variant"), "x.f1 (variant)"),
    (listed(GEOMETRY), f"x.element ({GEOMETRY})"),
    (mapped("variant"), "x.value (variant)"),
    (struct(listed(mapped("geography"))), "x.f0.element.value (geography)"),
    (listed("unknown"), "x (unknown inside)"),
    (struct("unknown"), "x (unknown inside)"),
]
TAKEN = ["unknown", "timestamp_ns", "timestamptz_ns", struct("unknown", "timestamp_ns")]


@pytest.mark.parametrize("kind", [*(kind for kind, _ in REFUSED), *TAKEN])
def test_such_tables_are_shown_and_kept(kind: Any) -> None:
    model = table(kind)
    shown = describe_table(IcebergTable.open(model.location.uri))
    assert shown["rows_with_deleted"] == 8
    if isinstance(kind, str):
        assert {"id": 10, "name": "x", "type": kind, "required": False} in shown["columns"]
    run = execute_manifests(model.operations(), ManifestOptions(), clock=FakeClock())
    assert (run.replaced_count, len(run.created)) == (2, 1)
    execute_expire(model.operations(), ExpireOptions(older_than_ms=2**62), clock=FakeClock())
    assert len(model.metadata().snapshots) == 1
    model.location.open().put("data/lost.parquet", b"1")
    plan = plan_orphans(model.operations(), OrphanOptions(), clock=LATER)
    assert len(execute_orphans(model.operations(), plan).deleted) == 1
    assert stored(model) == referenced(model)
    assert model.rows() == list(range(8))
    schema = model.metadata().json()["schemas"][0]
    assert schema["fields"][-1] == field(10, "x", kind)


@pytest.mark.parametrize(("kind", "named"), REFUSED)
def test_a_data_rewrite_names_the_column_and_changes_nothing(kind: Any, named: str) -> None:
    model = table(kind)
    before = stored(model)
    opened = IcebergTable.open(model.location.uri)
    (left,) = plan_table_rewrite(opened.io, opened.metadata, ALL).skipped
    assert (left.reason, left.files, left.named) == (Reason.COLUMN_TYPE, 4, (named,))
    assert left.words.endswith(f"types that are not rewritten: {named}")
    with pytest.raises(UnsupportedTableError, match="are not rewritten") as failure:
        rewrite_data_files(opened, ALL, write_groups_here)
    assert named in str(failure.value)
    assert stored(model) == before


@pytest.mark.parametrize("kind", TAKEN)
def test_files_of_other_types_are_taken(kind: Any) -> None:
    model = table(kind)
    assert unstorable_columns(model.metadata().schema().fields) == ()
    opened = IcebergTable.open(model.location.uri)
    assert plan_table_rewrite(opened.io, opened.metadata, ALL).files_before == 4


def test_simple_types_can_all_be_stored() -> None:
    kinds = ("boolean", "int", "long", "float", "double", "date", "time", "timestamp",
             "string", "timestamptz", "uuid", "binary", "fixed[3]", "decimal(9, 2)",
             struct("int"))  # fmt: skip
    fields = [field(number, f"c{number}", kind) for number, kind in enumerate(kinds)]
    assert unstorable_columns(Schema.parse({"fields": fields}).fields) == ()


@pytest.mark.parametrize(
    ("kind", "transforms", "partition"),
    [
        ("timestamp_ns", ("identity", "day", "hour"), (86_400_000_000_001, 1, 24)),
        ("timestamptz_ns", ("year", "month", "bucket[4]"), (-1, -2, 3)),
        ("unknown", ("identity", "void"), (None, None)),
        ("variant", ("void",), (None,)),
        (GEOMETRY, ("void",), (None,)),
        # Of a transform that Tideline does not know, and so cannot read, are whole numbers.
        ("string", ("zorder2",), (7,)),
    ],
)
def test_they_are_sources_of_partitions(
    kind: str, transforms: tuple[str, ...], partition: tuple[Any, ...]
) -> None:
    model = table(kind, *transforms)
    for name in ("a", "b"):
        operations = model.operations()
        writer = MetadataWriter(operations.io, snapshot_id=new_snapshot_id())
        path = f"{model.location.uri}/data/{name}.parquet"
        change = RowDelta("append", [data_file(path, spec_id=5, partition=partition)])
        change.bind(operations.io, writer)
        commit_snapshot(operations, change, writer, clock=model.clock)
    run = execute_manifests(model.operations(), ManifestOptions(5), clock=FakeClock())
    assert (run.replaced_count, len(run.created)) == (2, 1)
    metadata, io = model.metadata(), model.operations().io
    found = [
        entry.data_file.partition
        for manifest in manifests_of(io, metadata.snapshot())
        for entry in entries_of(io, manifest)
        if manifest.spec_id == 5
    ]
    assert found == [partition] * 2
