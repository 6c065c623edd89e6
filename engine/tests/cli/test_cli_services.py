"""`plan` and `execute`: every service explained, run, and reported file by file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tideline
from tideline.cli.main import run
from tideline.hudi.write.write_operation import WriteOperation
from tideline.testing.write_batch import batch_engine, write_batch

SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("n", pa.int64())])


def upsert(uri: str, keys: range, n: int) -> None:
    """Commit rows without Spark, and without the services that run after a commit."""
    table = tideline.open(uri)
    rows = pa.table(
        {"id": [f"k{key}" for key in keys], "day": ["mon"] * len(keys), "n": [n] * len(keys)},
        schema=SCHEMA,
    )
    engine = batch_engine(table, rows, WriteOperation.UPSERT)
    write_batch(table, engine, WriteOperation.UPSERT)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    uri = str(tmp_path / "table")
    tideline.create(uri, schema=SCHEMA, record_key=["id"], partition_by=["day"], ordering=["n"])
    for n in range(5):
        upsert(uri, range(10), n)
    return uri


def printed_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def files_below(uri: str) -> set[str]:
    return {str(path.relative_to(uri)) for path in Path(uri).rglob("*") if path.is_file()}


def test_plan_says_of_every_service_whether_it_is_due_and_why(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_below(uri)
    assert run(["plan", uri, "--json"]) == 0
    plans = {plan["service"]: plan for plan in printed_json(capsys)["services"]}
    # What is due comes first, the others in the order in which they run.
    assert list(plans) == ["clustering", "rollback", "cleaning", "archival", "compaction",
                           "log_compaction", "partition_ttl", "indexing"]  # fmt: skip
    assert plans["clustering"]["saves"]["files_opened"] == 0
    assert plans["clustering"]["core_seconds"] > 0
    assert all(plan["reason"] for plan in plans.values())
    assert plans["clustering"]["due"]
    assert plans["clustering"]["bytes_read"] > 0
    assert plans["clustering"]["details"]["file groups"] == "1"
    assert not plans["compaction"]["due"]
    assert files_below(uri) == before

    assert run(["plan", uri]) == 0
    output = capsys.readouterr().out
    assert "clustering: due, 5 of 4 commits since the table began." in output
    assert "saves nothing that can be counted\n  0.05 core-seconds, by default" in output
    assert "compaction: not due, only merge-on-read tables have log files to merge." in output


def test_settings_may_be_given_for_one_plan(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    option = ["--option", "hoodie.clustering.inline.max.commits=9"]
    assert run(["plan", "clustering", uri, *option, "--json"]) == 0
    (plan,) = printed_json(capsys)["services"]
    assert not plan["due"]
    assert plan["reason"] == "5 of 9 commits since the table began"


def test_execute_reports_every_file_that_it_deleted(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    option = ["--option", "hoodie.clean.commits.retained=1"]
    assert run(["plan", "cleaning", uri, *option, "--json"]) == 0
    planned = printed_json(capsys)["services"][0]
    before = files_below(uri)
    assert run(["execute", "cleaning", uri, *option, "--json"]) == 0
    (done,) = printed_json(capsys)["done"]
    deleted = {file["path"] for file in done["deleted"]}
    assert deleted == set(planned["paths"])
    assert deleted == {path for path in before - files_below(uri) if path.endswith(".parquet")}
    assert done["saved"] == planned["saves"]
    assert done["saved"]["objects_listed"] == len(deleted)
    assert done["core_seconds"] >= 0

    assert run(["execute", "cleaning", uri, *option]) == 0
    assert capsys.readouterr().out.startswith("cleaning: not due, ")


def test_a_service_that_is_not_due_does_nothing(
    uri: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_below(uri)
    assert run(["execute", "compaction", uri]) == 0
    assert "not due" in capsys.readouterr().out
    assert files_below(uri) == before


def test_unknown_services_are_refused(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "vacuum", uri]) == 2
    assert run(["execute", "vacuum", uri]) == 2
    assert "there are rollback, cleaning" in capsys.readouterr().err


@pytest.mark.spark
def test_clustering_is_executed_and_reported(uri: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["execute", "clustering", uri, "--json"]) == 0
    (done,) = printed_json(capsys)["done"]
    assert done["metrics"]["rows_written"] == 10
    assert sorted(file["what"] for file in done["files"]) == ["replaced", "written"]
    upsert(uri, range(10), 9)
    options = ["--option", "hoodie.clustering.inline.max.commits=1"]
    assert run(["plan", "clustering", uri, *options, "--json"]) == 0
    assert printed_json(capsys)["services"][0]["estimated_s"] > 0
