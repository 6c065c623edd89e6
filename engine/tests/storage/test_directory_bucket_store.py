"""The store contract on a directory bucket (S3 Express One Zone), emulated in front of a MinIO."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import tideline
from tideline.cli.main import run
from tideline.errors import ConfigError, StorageUnavailableError
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import AlreadyExists, Changed, Written
from tideline.testing.directory_bucket_server import DirectoryBucketServer
from tideline.testing.minio_server import MinioServer
from tideline.testing.store_contract import StoreContract

pytestmark = [pytest.mark.minio, pytest.mark.slow]
NAME = "s3://lake--use1-az4--x-s3/table"


@pytest.fixture(scope="module")
def bucket(
    minio_server: MinioServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[DirectoryBucketServer]:
    with DirectoryBucketServer(minio_server, tmp_path_factory.mktemp("tls")) as bucket:
        yield bucket


@pytest.fixture
def place(bucket: DirectoryBucketServer, monkeypatch: pytest.MonkeyPatch) -> StoreLocation:
    return place_in(bucket, monkeypatch)


def place_in(bucket: DirectoryBucketServer, monkeypatch: pytest.MonkeyPatch) -> StoreLocation:
    for name, value in bucket.environment().items():
        monkeypatch.setenv(name, value)
    uri = f"s3://{bucket.bucket}/{secrets.token_hex(8)}/table"
    return StoreLocation.of(uri, bucket.storage_options())


class TestDirectoryBucketStore(StoreContract):
    @pytest.fixture
    def location(self, place: StoreLocation) -> StoreLocation:
        return place


def test_lists_are_in_no_order_there_and_levels_are_sorted_here(
    place: StoreLocation, bucket: DirectoryBucketServer
) -> None:
    store = place.open()
    names = [f"day={number % 30:02}/{number:03}" for number in range(90)]
    for name in names:
        store.put(name, b"1")
    listed = [item.path for item in store.list()]
    assert listed != sorted(listed) and sorted(listed) == sorted(names)
    assert store.list_directory().directories == tuple(f"day={day:02}" for day in range(30))
    level = [item.path for item in store.list_directory("day=07").objects]
    assert level == ["day=07/007", "day=07/037", "day=07/067"]
    after = [item.path for item in store.list_after("day=20/050")]
    assert sorted(after) == [name for name in sorted(names) if name > "day=20/050"]
    assert not any("start-after" in query for _, query in bucket.seen)


def test_the_same_bytes_never_have_the_same_version(place: StoreLocation) -> None:
    store = place.open()
    first, _, third = (store.put("x", body) for body in (b"1", b"2", b"1"))
    assert first.version != third.version
    assert store.put_if_match("x", b"3", version=first.version) == Changed()
    assert isinstance(store.put_if_match("x", b"3", version=third.version), Written)


def test_an_upload_under_way_is_an_empty_folder(place: StoreLocation) -> None:
    store = place.open()
    with store.open_writer("under/way") as sink:
        sink.write(b"x" * 20_000_000)
        assert store.list_directory().directories == ("under",)
        assert store.list_directory("under").objects == ()
        assert [*store.list()] == []
    assert [item.path for item in store.list()] == ["under/way"]


def test_a_session_is_renewed_before_it_ends_and_one_that_was_refused_is_replaced(
    minio_server: MinioServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with DirectoryBucketServer(minio_server, tmp_path, session_s=3.0) as bucket:
        store = place_in(bucket, monkeypatch).open()
        store.put("x", b"1")
        time.sleep(3.5)
        with pytest.raises(StorageUnavailableError, match="the session token has expired"):
            store.get("x")
        assert store.get("x") == b"1"
        assert len(bucket.sessions) == 2


def test_a_lost_reply_is_settled_by_reading_back(
    place: StoreLocation, bucket: DirectoryBucketServer
) -> None:
    store = place.open()
    bucket.losing = 1
    assert isinstance(store.put_if_absent("x", b"1", token="ours"), Written)
    assert bucket.losing == 0
    assert store.get("x") == b"1"
    assert store.put_if_absent("x", b"1", token="theirs") == AlreadyExists()


def test_the_judge_of_stores_passes_it(
    place: StoreLocation, capsys: pytest.CaptureFixture[str]
) -> None:
    options = dict(place.options)
    reached = ["--region", options["region"], "--ca-bundle", options["ca_bundle"]]
    assert run(["check-store", place.uri, *reached, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {found["outcome"], *(check["outcome"] for check in found["checks"])} == {"passed"}


def test_a_copy_is_signed_without_a_session(place: StoreLocation) -> None:
    store = place.open()
    store.put("x", b"1")
    assert store.copy_within("x", store, "y")  # type: ignore[attr-defined]
    assert store.get("y") == b"1"


def test_tables_of_both_formats_live_there(place: StoreLocation) -> None:
    options = dict(place.options)
    rows = [{"id": f"{number}", "at": 1} for number in range(20)]
    hudi = tideline.create(
        f"{place.uri}/hudi", record_key="id", ordering="at", table_type="MERGE_ON_READ",
        storage_options=options,
    )  # fmt: skip
    hudi.write(rows)
    hudi.write([{"id": "3", "at": 2}])
    assert hudi.compact() is not None
    hudi.clean()
    assert not hudi.check()
    found = tideline.open(f"{place.uri}/hudi", storage_options=options).to_arrow(["id", "at"])
    assert {row["id"]: row["at"] for row in found.to_pylist()} == {
        **{row["id"]: 1 for row in rows}, "3": 2
    }  # fmt: skip
    iceberg = tideline.create_iceberg(
        f"{place.uri}/iceberg", found.schema, key="id", storage_options=options
    )
    iceberg.write(rows)
    iceberg.write([{"id": "new", "at": 2}])
    assert iceberg.count() == len(rows) + 1


SPARK = """
import sys
from tideline import LakeTable
from tideline.spark.session.spark_session import spark_session
from tideline.storage.location import StoreLocation

uri, bucket, port, authority = sys.argv[1:]
options = {"region": "us-east-1", "ca_bundle": authority}
way = f"spark.hadoop.fs.s3a.bucket.{bucket}.proxy."
spark = spark_session("bucket", master="local[1]", locations=[StoreLocation.of(uri, options)],
                      extra_conf={"spark.driver.memory": "1g", way + "host": "127.0.0.1",
                                  way + "port": port, way + "ssl.enabled": "false"})
table = LakeTable.create(uri, record_key="id", ordering="at", storage_options=options)
rows = spark.range(100).selectExpr("cast(id as string) id", "1L as at")
table.write(rows)
table.write(rows.where("id < 10").selectExpr("id", "2L as at"))
print("rows", table.snapshot(spark).count(), table.snapshot(spark).where("at = 2").count())
spark.range(7).repartition(2).write.parquet(f"s3a://{bucket}/by-spark")
print("own", spark.read.parquet(f"s3a://{bucket}/by-spark").count())
"""


@pytest.mark.spark
def test_spark_works_there(
    place: StoreLocation, bucket: DirectoryBucketServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By S3A, whose SDK finds the host and opens sessions itself."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(bucket.authority))
    bucket.seen.clear()
    done = subprocess.run(
        [sys.executable, "-c", SPARK, f"{place.uri}/spark", bucket.bucket, str(bucket.port),
         str(bucket.authority)],
        capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "rows 100 10" in done.stdout and "own 7" in done.stdout
    assert len([query for _, query in bucket.seen if "session" in query]) >= 2


@pytest.mark.parametrize(
    ("uri", "options", "said"),
    [
        ("s3://lake--x-s3/t", {}, "base-name--zone-id--x-s3"),
        ("s3://lake--use1--x-s3/t", {}, "base-name--zone-id--x-s3"),
        (NAME, {"endpoint": "https://minio.test"}, "served by Amazon alone"),
        (NAME, {"sse": "AES256"}, "leave out sse"),
        (NAME, {"requester_pays": "true"}, "leave out sse"),
    ],
)
def test_what_such_a_bucket_does_not_take_is_refused(
    uri: str, options: dict[str, str], said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        StoreLocation.of(uri, options)


def test_its_host_follows_from_its_name_and_it_is_not_made_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "key")
    place = StoreLocation.of(NAME, {"create_bucket": "true", "region": "eu-north-1"})
    zone = "s3express-use1-az4.eu-north-1.amazonaws.com"
    assert place.server() == f"https://lake--use1-az4--x-s3.{zone}"
    settings = {name.rpartition("x-s3.")[2]: text for name, text in place.hadoop_settings().items()}
    assert settings["endpoint"] == f"https://{zone}"
    assert settings["path.style.access"] == "false"
    with pytest.raises(ConfigError, match="not created here"):
        place.create_missing()
