"""Settings of a LakeTable: refused by name, or applied to the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tideline.hudi.table.merge_mode import MergeMode
from tideline.hudi.table.table_config import KeyGeneratorKind
from tideline.iceberg.services.rewrite_data_files.arguments import RewriteArguments
from tideline.iceberg.services.rewrite_data_files.service import REWRITE_DATA_FILES
from tideline.ingest.execute.execute_operation import execute_operation
from tideline.ingest.location import Location
from tideline.ingest.operation.operation import Operation
from tideline.lake_table import LakeTable
from tideline.settings.small_engine import SMALL_ENGINE, SmallEngine
from tideline.testing.iceberg_model import IcebergModel
from tideline_operator.decide.iceberg_settings import iceberg_settings
from tideline_operator.decide.planned_operation import create_operation
from tideline_operator.decide.service_settings import service_settings, wanted_services
from tideline_operator.testing.table_states import resolved, resolved_iceberg


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("hoodie.clean.commit.retained", "1", "did you mean hoodie.clean.commits.retained?"),
        ("hoodie.write.lock.provider", "org.example.Zoo", "StorageBasedLockProvider"),
        ("hoodie.datasource.write.operation", "insert", "cannot be a property of a LakeTable"),
        ("hoodie.keep.min.commits", "few", "an integer of at least 1"),
    ],
)
def test_an_unknown_property_is_a_fault_of_the_spec(name: str, text: str, says: str) -> None:
    spec = resolved().spec
    faults = dict(replace(spec, properties={name: text}).faults())
    assert says in faults[f"properties.{name}"]


def test_a_table_is_created_with_the_keys_that_its_spec_declares(tmp_path: Path) -> None:
    table = resolved(
        keyGenerator={"type": "COMPLEX", "hiveStyle": True, "urlEncode": True},
        properties={"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"},
    )
    operation = create_operation(replace(table, location=Location(f"{tmp_path}/table")))
    result = execute_operation(operation, session_factory=lambda _: pytest.fail("needs no Spark"))
    assert result.message == "created the table"
    config = LakeTable.open(f"{tmp_path}/table").hoodie_table.config
    assert config.key_generator is KeyGeneratorKind.COMPLEX
    assert (config.hive_style, config.url_encode) == (True, True)
    assert config.merge_mode is MergeMode.COMMIT_TIME_ORDERING


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_table_is_created_with_the_version_that_its_spec_declares(
    version: int, tmp_path: Path
) -> None:
    table = replace(resolved(tableVersion=version), location=Location(f"{tmp_path}/table"))
    content = create_operation(table).to_json_object()
    assert content["table"]["tableVersion"] == version
    operation = Operation.from_json_object(content)
    execute_operation(operation, session_factory=lambda _: pytest.fail("needs no Spark"))
    config = LakeTable.open(f"{tmp_path}/table").hoodie_table.config
    assert config.layout.table_version == version


@pytest.mark.parametrize(("small", "setting"), [("Spark", "spark"), ("InProcess", "in_process")])
def test_who_does_small_work_goes_with_each_operation_and_stays_out_of_the_table(
    small: str, setting: str, tmp_path: Path
) -> None:
    table = replace(resolved(engine={"small": small}), location=Location(f"{tmp_path}/table"))
    operation = create_operation(table)
    assert operation.table.write_properties[SMALL_ENGINE] == setting
    assert service_settings(table.spec)[SMALL_ENGINE] == setting
    execute_operation(operation, session_factory=lambda _: pytest.fail("needs no Spark"))
    config = LakeTable.open(f"{tmp_path}/table").hoodie_table.config
    assert SMALL_ENGINE not in config.properties
    rewrite = iceberg_settings(resolved_iceberg(engine={"small": small}).spec, REWRITE_DATA_FILES)
    assert RewriteArguments.of(
        rewrite, IcebergModel.create().metadata()
    ).options.small_engine is SmallEngine(setting)


def test_without_a_word_the_table_says_who_does_small_work() -> None:
    assert SMALL_ENGINE not in create_operation(resolved()).table.write_properties
    assert SMALL_ENGINE not in service_settings(resolved().spec)


def test_no_service_is_wanted_where_they_are_switched_off() -> None:
    assert wanted_services(resolved().spec) != ()
    off = resolved(properties={"hoodie.table.services.enabled": "false"})
    assert wanted_services(off.spec) == ()
