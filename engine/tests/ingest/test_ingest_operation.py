"""Operations and results as JSON, and the ids of operations."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.errors import ConfigError
from tideline.hudi.services.cleaning.service import CLEANING
from tideline.hudi.services.log_compaction.service import LOG_COMPACTION
from tideline.hudi.services.partition_ttl.service import PARTITION_TTL
from tideline.hudi.services.registry import all_services
from tideline.hudi.services.rollback.service import ROLLBACK
from tideline.hudi.services.service import TableService
from tideline.iceberg.services.registry import DRY_RUN
from tideline.iceberg.services.registry import all_services as iceberg_services
from tideline.iceberg.services.rewrite_data_files.service import REWRITE_DATA_FILES
from tideline.ingest.column_type import Column, ColumnType
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import (
    CreateTable,
    MakeSavepoint,
    Operation,
    OperationKind,
    RestoreTable,
    RollBack,
    RunService,
    TableTarget,
    Work,
    operation_id,
)
from tideline.ingest.operation.result import RESULT_BYTES_MAX, OperationResult, Outcome, SkippedFile
from tideline.ingest.sources.files.arrived import ArrivedFile
from tideline.ingest.sources.files.listing import FileFormat
from tideline.services.benefit import Benefit
from tideline.testing.file_ingests import ingest_of_files

TARGET = TableTarget(
    name="flights",
    location=Location("s3://lake/flights", (("endpoint", "https://s3.local"),)),
    record_key=("carrier", "flight"),
    partition_by=("month",),
    ordering=("updated_at",),
    schema=(Column("carrier", ColumnType.parse("string"), nullable=False),),
    creation_properties={"hoodie.index.type": "BLOOM"},
)
INGEST = ingest_of_files(
    name="landing",
    landing=Location("s3://lake/landing"),
    file_format=FileFormat.CSV,
    files=(ArrivedFile("a ü.csv", 10, 5), ArrivedFile("b.csv", 11, 6)),
    generation=3,
    options={"sep": ";"},
    source_schema=(Column("fares", ColumnType.parse("map<string,decimal(10,2)>")),),
    transform="select 1",
    delete_when="gone",
    quarantines=False,
    once_number=2,
)


INSTANT = "20260101000000000"
SERVICES = [
    RunService(service, INSTANT, {"hoodie.x": "1"}, (INSTANT,), 2)
    for service in all_services()
    if service is not ROLLBACK
]


@pytest.mark.parametrize(
    "work",
    [
        CreateTable(),
        RollBack((INSTANT,), ("people-ingest-1/6f1c",)),
        INGEST,
        MakeSavepoint("a", INSTANT),
        RestoreTable(INSTANT, INSTANT, {"hoodie.x": "1"}),
        RunService(CLEANING, ""),
        *SERVICES,
        *(
            RunService(service, "v1", {"where": "a = 1", "x": "1", DRY_RUN: "true"}, rerun=2)
            for service in iceberg_services()
        ),
    ],
)
def test_an_operation_survives_the_way_to_json_and_back(work: Work) -> None:
    operation = Operation("flights-x-1", TARGET, work)
    text = json.dumps(operation.to_json_object())
    assert Operation.from_json_object(json.loads(text)) == operation
    assert json.loads(text)["kind"] == operation.kind.value


def test_the_kinds_of_services_are_the_services() -> None:
    kinds = {kind.service for kind in OperationKind} - {None}
    assert kinds == {*all_services(), *iceberg_services()} - {ROLLBACK}
    assert all(OperationKind.of(work.service).service is work.service for work in SERVICES)
    longest = max((kind for kind in OperationKind), key=lambda kind: len(kind.value))
    assert len(operation_id("x" * 80, longest)) <= 63


@pytest.mark.parametrize("service", [LOG_COMPACTION, PARTITION_TTL, CLEANING], ids=str)
def test_a_file_spells_services_by_their_names(service: TableService) -> None:
    operation = Operation("flights-x-1", TARGET, RunService(service, INSTANT))
    content = operation.to_json_object()
    assert content["kind"] == content["work"]["service"] == str(operation.kind) == service.name


def test_the_settings_of_an_iceberg_service_are_its_procedures_arguments_and_options() -> None:
    given = {"where": "a = 1", "min-input-files": "2", DRY_RUN: "true"}
    content = Operation("x", TARGET, RunService(REWRITE_DATA_FILES, "v1", given)).to_json_object()
    assert (content["kind"], content["work"]) == (
        "rewrite",
        {
            "basis": "v1",
            "arguments": {"where": "a = 1"},
            "options": {"min-input-files": "2"},
            "dryRun": True,
            "rerun": None,
        },
    )


@pytest.mark.parametrize(
    "content", [None, [], {}, {"version": 2}, {"version": 1, "id": "x", "kind": "compact"}]
)
def test_what_is_no_operation_is_refused(content: object) -> None:
    with pytest.raises(ConfigError, match="operation"):
        Operation.from_json_object(content)


@given(st.text(max_size=80), st.text(max_size=20))
def test_an_id_is_deterministic_and_fit_for_a_job_name(name: str, basis: str) -> None:
    first = operation_id(name, OperationKind.INGEST, basis)
    assert first == operation_id(name, OperationKind.INGEST, basis)
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", first)
    assert len(first) <= 63


def test_ids_distinguish_operations() -> None:
    made = {
        operation_id("a", OperationKind.INGEST, "x"),
        operation_id("b", OperationKind.INGEST, "x"),
        operation_id("a", OperationKind.ROLLBACK, "x"),
        operation_id("a", OperationKind.INGEST, "x", "y"),
        operation_id("a", OperationKind.INGEST, "xy"),
    }
    assert len(made) == 5


def test_an_audit_that_is_too_long_is_left_out_of_the_line_only() -> None:
    files = [{"path": f"2026-01/{number}.parquet", "bytes": number} for number in range(500)]
    result = OperationResult("x", Outcome.SUCCEEDED, "done", audit=({"files": files},))
    assert result.to_json_object()["audit"] == [{"files": files}]
    read = OperationResult.from_json_object(json.loads(result.to_json()))
    assert (read.message, read.audit) == ("done", ())
    short = OperationResult("x", Outcome.SUCCEEDED, audit=({"files": files[:2]},))
    assert OperationResult.from_json_object(json.loads(short.to_json())) == short


def test_a_result_survives_the_way_to_json_and_back() -> None:
    result = OperationResult(
        "flights-ingest-1",
        Outcome.SUCCEEDED,
        instant="20260101000000000",
        rows_inserted=5,
        seconds=1.5,
        skipped=(SkippedFile("bad.csv", "Malformed"),),
        notes=("a note",),
        rolled_back=("20250101000000000",),
        saved=Benefit(files_opened=3, bytes_scanned=-7, bytes_stored=4),
    )
    assert OperationResult.from_json_object(json.loads(result.to_json())) == result
    assert result.to_json_object()["saved"]["benefit_bytes"] == 3 * 4 * 1024 * 1024 - 3


@given(
    st.text(max_size=6000),
    st.lists(st.tuples(st.text(max_size=300), st.text(max_size=300)), max_size=100),
    st.lists(st.text(max_size=2000), max_size=30),
)
def test_a_result_always_fits_a_termination_message(
    message: str, skipped: list[tuple[str, str]], notes: list[str]
) -> None:
    result = OperationResult(
        "x" * 63,
        Outcome.FAILED,
        message=message,
        exit_code=1,
        skipped=tuple(SkippedFile(*item) for item in skipped),
        notes=tuple(notes),
        rolled_back=tuple("20260101000000000" for _ in range(200)),
    )
    text = result.to_json()
    assert len(text.encode()) <= RESULT_BYTES_MAX
    read = OperationResult.from_json_object(json.loads(text))
    assert (read.id, read.outcome, read.exit_code) == ("x" * 63, Outcome.FAILED, 1)
