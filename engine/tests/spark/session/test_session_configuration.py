"""What a session is set up with: quiet, UTC, Arrow, one store per bucket."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tideline.cache_directory import cache_directory
from tideline.errors import ConfigError
from tideline.spark.session.class_archive import class_path, find_archive
from tideline.spark.session.connector_jars import jars_folder
from tideline.spark.session.connectors import ABFS, S3A
from tideline.spark.session.spark_session import (
    is_local,
    local_cores,
    running_session,
    spark_configuration,
    spark_session,
)
from tideline.spark.session.store_connection import connect_store, trust_ca_bundle
from tideline.storage.location import StoreLocation
from tideline.testing.spy_server import make_certificate

MINIO = StoreLocation.of("s3://lake/t", {"endpoint": "http://127.0.0.1:9000", "allow_http": "true"})


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tideline"


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "an-access-key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret")


@pytest.mark.spark
def test_a_running_session_is_returned_as_it_is(spark: SparkSession) -> None:
    # A stream that an earlier test ran may have left a session of its own on the same Java.
    running = running_session()
    assert spark_session("another", master="local[7]") is running
    assert running is not None
    assert running.sparkContext is spark.sparkContext


@pytest.mark.spark
def test_sql_runs_in_utc_regardless_of_the_machines_zone(spark: SparkSession) -> None:
    row = spark.sql("select cast(timestamp_micros(0) as string) as epoch").first()
    assert row is not None
    assert row["epoch"] == "1970-01-01 00:00:00"


@pytest.mark.spark
def test_python_tasks_get_large_arrow_batches(spark: SparkSession) -> None:
    def sizes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"rows": [batch.num_rows]})

    counted = spark.range(150_000, numPartitions=1).mapInArrow(sizes, "rows long").collect()
    assert [row["rows"] for row in counted] == [65_536, 65_536, 18_928]


@pytest.mark.spark
def test_python_workers_come_from_the_daemon_with_arrow_imported(spark: SparkSession) -> None:
    def parents(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        list(batches)
        command = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        yield pa.record_batch({"command": [command]})

    row = spark.range(1).mapInArrow(parents, "command string").first()
    assert row is not None
    assert "tideline.spark.session.python_daemon" in row["command"]


@pytest.mark.spark
def test_a_value_that_does_not_fit_is_an_error(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="CAST_OVERFLOW"):
        spark.range(1).select(F.lit(3_000_000_000).cast("int")).collect()


@pytest.mark.spark
def test_a_failing_task_is_not_reported_twice(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ValueError(f"no {batches}")

    with pytest.raises(Exception, match="ValueError"):
        spark.range(1).mapInArrow(fail, "id long").collect()
    assert capfd.readouterr().err == ""


@pytest.mark.spark
def test_timestamps_are_written_as_microseconds(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    moment = dt.datetime(2024, 1, 5, 10, 0, 0, 123456)
    spark.createDataFrame([(moment,)], "at timestamp").coalesce(1).write.parquet(folder)
    [file] = Path(folder).glob("*.parquet")
    assert "Timestamp(isAdjustedToUTC=true, timeUnit=microseconds" in str(
        pq.ParquetFile(file).schema
    )


def test_an_s3_location_without_the_jars_is_a_config_error_that_says_what_to_run(
    empty_cache: Path,
) -> None:
    assert empty_cache.name == "tideline"
    with pytest.raises(ConfigError, match="tideline install-jars"):
        spark_configuration("local[1]", [MINIO])


@pytest.mark.spark
def test_a_session_started_without_the_jars_refuses_an_s3_location(spark: SparkSession) -> None:
    jvm = spark._jvm
    assert jvm is not None
    if jvm.java.lang.System.getProperty("java.class.path").find("hadoop-aws") >= 0:
        pytest.skip("this session was started with the S3A connector")
    with pytest.raises(ConfigError, match="start a new session"):
        connect_store(spark, MINIO)


@pytest.mark.spark
def test_a_ca_bundle_without_certificates_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    bundle = tmp_path / "ca.pem"
    with pytest.raises(ConfigError, match="cannot read ca_bundle"):
        trust_ca_bundle(spark, str(bundle))
    bundle.write_text("-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n")
    with pytest.raises(ConfigError, match="no certificates"):
        trust_ca_bundle(spark, str(bundle))


@pytest.fixture
def own_trust(spark: SparkSession, empty_cache: Path) -> Iterator[Path]:
    """Where bundles are kept; afterwards Java trusts what it did before."""
    jvm: Any = spark._jvm
    names = [f"javax.net.ssl.trustStore{end}" for end in ("", "Type", "Password")]
    before = {name: jvm.java.lang.System.getProperty(name) for name in names}
    yield empty_cache
    for name, text in before.items():
        if text is None:
            jvm.java.lang.System.clearProperty(name)
        else:
            jvm.java.lang.System.setProperty(name, text)


@pytest.mark.spark
def test_a_second_ca_bundle_is_trusted_beside_the_first(
    spark: SparkSession, own_trust: Path, tmp_path: Path
) -> None:
    bundles = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        bundles.append(folder / "ca.pem")
        bundles[-1].write_bytes(make_certificate(folder, "localhost")[0])
        trust_ca_bundle(spark, str(bundles[-1]))
    jvm: Any = spark._jvm
    newest = Path(jvm.java.lang.System.getProperty("javax.net.ssl.trustStore"))
    assert newest.parent == own_trust
    listed = subprocess.run(
        ["keytool", "-list", "-keystore", newest, "-storepass", "changeit", "-rfc"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    trusted = "".join(listed.split())
    for bundle in bundles:
        lines = bundle.read_text().splitlines()
        assert "".join(lines[1:-1]) in trusted
    assert trusted.count("BEGINCERTIFICATE") > 2, "the authorities of Java's own are kept"


def test_installed_jars_go_on_the_class_path_of_a_local_session(empty_cache: Path) -> None:
    folder = empty_cache / "jars" / "s3a-3.5.0-2.35.4"
    folder.mkdir(parents=True)
    (folder / "hadoop-aws-3.5.0.jar").touch()
    settings = spark_configuration("local[1]", [MINIO])
    # Java takes its archive of classes where the class path begins with Spark's own jars.
    before = f"{class_path()}:" if find_archive() else ""
    assert settings["spark.driver.extraClassPath"] == f"{before}{folder}/*"
    remote = spark_configuration("k8s://https://kubernetes.default.svc", [MINIO])
    assert remote["spark.jars"] == (folder / "hadoop-aws-3.5.0.jar").as_uri()


def test_settings_are_per_bucket_and_hold_no_credentials() -> None:
    settings = MINIO.hadoop_settings()
    prefix = "fs.s3a.bucket.lake"
    assert settings[f"{prefix}.endpoint"] == "http://127.0.0.1:9000"
    assert settings[f"{prefix}.path.style.access"] == "true"
    assert settings[f"{prefix}.connection.ssl.enabled"] == "false"
    assert all(name.startswith(prefix) for name in settings)
    assert not {"an-access-key", "a-secret"} & set(settings.values())


def test_amazons_endpoint_is_set_so_that_the_environment_cannot_redirect_it() -> None:
    settings = StoreLocation.of("s3://lake/t", {"region": "eu-west-1"}).hadoop_settings()
    assert settings["fs.s3a.bucket.lake.endpoint"] == "https://s3.eu-west-1.amazonaws.com"


def test_a_local_location_needs_no_settings(tmp_path: Path) -> None:
    location = StoreLocation.of(tmp_path)
    assert location.hadoop_settings() == {}
    assert not any("s3a" in name for name in spark_configuration("local[1]", [location]))


def test_local_masters_are_distinguished_from_clusters() -> None:
    assert [is_local(m) for m in ("local", "local[*]", "local[2,3]", "k8s://x", "localhost")] == [
        *(True, True, True, False, False)
    ]
    assert [local_cores(m) for m in ("local", "local[3]", "local[2,4]")] == [1, 3, 2]
    assert local_cores("local[*]") == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("master", "work_bytes", "is_brief"),
    [
        ("local[2]", 64 * 1024 * 1024, True),
        ("local[2]", 64 * 1024 * 1024 + 1, False),
        ("local[2]", None, False),
        ("k8s://cluster", 1, False),
    ],
)
def test_java_compiles_once_what_does_little_work(
    master: str, work_bytes: int | None, is_brief: bool
) -> None:
    options = spark_configuration(master, (), work_bytes)["spark.driver.extraJavaOptions"]
    assert ("-XX:TieredStopAtLevel=1" in options.split()) == is_brief


def test_only_local_sessions_are_bound_to_this_machine() -> None:
    assert spark_configuration("local[2]")["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in spark_configuration("k8s://https://kubernetes.default.svc")


def test_a_home_that_cannot_be_written_leaves_the_cache_to_the_temporary_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    not_a_folder = tmp_path / "home"
    not_a_folder.touch()
    found = cache_directory({"HOME": str(not_a_folder)})
    assert found.parent == tmp_path
    assert found.is_dir()


def test_executors_read_within_the_limits_of_their_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "spark.executorEnv.TIDELINE_METADATA_BYTES_MAX"
    monkeypatch.delenv("TIDELINE_METADATA_BYTES_MAX", raising=False)
    assert name not in spark_configuration("local[2]")
    monkeypatch.setenv("TIDELINE_METADATA_BYTES_MAX", "512Mi")
    assert spark_configuration("local[2]")[name] == "512Mi"


@pytest.mark.parametrize(
    ("uri", "store"),
    [("gs://lake/people", "gcs"), ("abfss://lake@account.dfs.core.windows.net/people", "azure")],
)
def test_a_store_without_its_jars_starts_no_java_and_no_executors(
    uri: str, store: str, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object) -> NoReturn:
        raise AssertionError("Spark is started")

    assert not empty_cache.exists()
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "true")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a-key")
    monkeypatch.setattr("tideline.spark.session.spark_session.running_session", lambda: None)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr("tideline.spark.session.spark_session.start", start)
    with pytest.raises(ConfigError, match=rf"run `tideline install-jars --store {store}` once"):
        spark_session(locations=[StoreLocation.of(uri, {})])


def test_the_jars_of_several_stores_go_on_the_class_path(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a-key")
    azure = StoreLocation.of("abfss://lake@account.dfs.core.windows.net/people", {})
    folders = []
    for connector in (S3A, ABFS):
        folders.append(jars_folder(connector))
        folders[-1].mkdir(parents=True)
        (folders[-1] / connector.artifacts[0].jar).touch()
    assert all(folder.is_relative_to(empty_cache) for folder in folders)
    settings = spark_configuration("local[1]", [MINIO, azure, MINIO])
    expected = ":".join(f"{folder}/*" for folder in folders)
    assert settings["spark.driver.extraClassPath"].endswith(expected)
    assert not any("a-key" in text for text in settings.values())
