"""Buckets that keep what is deleted: as versions, which is said, or by a lock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tideline import LakeTable
from tideline.cli.main import run
from tideline.formats.avro import decode_container
from tideline.hudi.timeline.instant import Action
from tideline.storage.kept_versions import VERSIONS_STAY
from tideline.storage.location import StoreLocation
from tideline.storage.probe.race import QUICK
from tideline.storage.probe.report import ProbeOutcome, StoreReport
from tideline.storage.probe.run import QUICK_PROMISES, check_store
from tideline.storage.refusals import AccessDeniedError, ObjectKeptError
from tideline.testing.ruled_s3_server import RuledS3Server, S3Rules

RETAIN = ("--option", "hoodie.clean.commits.retained=1")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[RuledS3Server]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TIDELINE_ALLOW_HTTP", "true")
    with RuledS3Server("lake") as server:
        monkeypatch.setenv("TIDELINE_S3_ENDPOINT", server.endpoint)
        yield server


def people(server: RuledS3Server, commits: int) -> LakeTable:
    table = LakeTable.create(
        "s3://lake/people",
        name="people",
        record_key="id",
        ordering="at",
        storage_options=dict(server.storage_options()),
    )
    for at in range(1, commits + 1):
        table.write(
            [{"id": "a", "name": "Ada", "at": at}], options={"hoodie.clean.automatic": "false"}
        )
    return table


def data_files(server: RuledS3Server) -> set[str]:
    keys = server.buckets["lake"].objects
    return {key for key in keys if key.endswith(".parquet") and ".hoodie" not in key}


@pytest.mark.slow
def test_a_clean_says_that_versions_stay(
    server: RuledS3Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.rules = S3Rules(keeps_versions=True)
    people(server, 4)
    before = data_files(server)
    assert run(["execute", "cleaning", "s3://lake/people", *RETAIN]) == 0
    gone = before - data_files(server)
    assert gone
    assert gone <= {key for key, _ in server.noncurrent}, "the bucket has them still"
    assert VERSIONS_STAY in capsys.readouterr().out


@pytest.mark.parametrize("keeps", [False, True])
def test_a_check_of_the_store_says_that_versions_stay(server: RuledS3Server, keeps: bool) -> None:
    server.rules = S3Rules(keeps_versions=keeps)
    store = StoreLocation.of("s3://lake/trial", dict(server.storage_options())).open()
    report = check_store((store,), effort=QUICK, promises=QUICK_PROMISES)
    assert (report.outcome, report.notes) == (ProbeOutcome.PASSED, (VERSIONS_STAY,) * keeps)
    assert StoreReport.from_json_object(report.to_json_object()) == report


def test_an_object_that_is_kept_is_named_and_stops_no_clean(server: RuledS3Server) -> None:
    table = people(server, 5)
    before = data_files(server)
    (first, *_) = sorted(before)
    server.rules = S3Rules(keeps=lambda key: key == first)
    (done,) = (ran := table.run("cleaning", options={"hoodie.clean.commits.retained": "1"})).done
    report = done.report()
    name = first.rpartition("/")[2]
    assert report.notes == (f"left undone: the store keeps {first.removeprefix('people/')}",)
    assert first in data_files(server)
    assert report.files_deleted == len(before - data_files(server)) > 0
    assert ran.to_json_object()["notes"] == [*report.notes]
    (clean,) = (
        LakeTable.open("s3://lake/people", storage_options=dict(server.storage_options()))
        .hoodie_table.timeline()
        .of(Action.CLEAN)
    )
    assert not clean.is_pending
    body = table.hoodie_table.store.get(table.hoodie_table.timelines.path(clean))
    record = decode_container(body)
    (partition,) = record["partitionMetadata"].values()
    assert partition["failedDeleteFiles"] == [name]
    assert name not in partition["successDeleteFiles"]
    assert table.to_arrow().to_pylist()[0]["at"] == 5
    assert not table.check()


def test_a_denied_delete_is_no_lost_reply(server: RuledS3Server) -> None:
    server.rules = S3Rules(keeps=lambda key: key.endswith("b"))
    options = dict(server.storage_options())
    store = StoreLocation.of("s3://lake/t", options).open()
    for name in "abc":
        store.put(name, b"1")
    with pytest.raises(ObjectKeptError, match=r"object lock.*403 AccessDenied.*s3://lake/t/b\]"):
        store.delete_many("abc")
    assert [item.path for item in store.list()] == ["b"]
    with pytest.raises(AccessDeniedError):
        store.delete("b")
