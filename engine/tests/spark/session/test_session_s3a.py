"""Spark reads tables from S3 with the small set of jars, credentials only in the environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pytest

from tideline.errors import StorageUnavailableError
from tideline.spark.session.connector_jars import (
    find_jars,
    install_jars,
    jars_folder,
    main,
    project_object_model,
)
from tideline.spark.session.connectors import S3A
from tideline.storage.location import StoreLocation
from tideline.storage.remote.connection import StoreConnection
from tideline.storage.s3.client import S3Credentials
from tideline.testing.hand_written_table import HandWrittenTable
from tideline.testing.minio_server import MinioServer
from tideline.testing.openid_issuer import DISCOVERY_PATH, OpenIdIssuer, role_arn, trusting

READ = """
import sys
from tideline.hudi.open_table import open_table
from tideline.spark.session.spark_session import spark_session
from tideline.spark.read.data_source import register
from tideline.spark.read.frames import snapshot
from tideline.storage.location import StoreLocation

uri, endpoint = sys.argv[1:]
options = {"endpoint": endpoint, "allow_http": "true"}
location = StoreLocation.of(uri, options)
spark = spark_session("s3", master="local[1]", locations=[location],
                    extra_conf={"spark.driver.memory": "1g"})
frame = snapshot(spark, open_table(location)).where("p = 'x'")
print(sorted((row["id"], row["p"]) for row in frame.collect()))
register(spark)
print(spark.read.format("tideline").options(**options).load(uri).count())
"""


@pytest.fixture(scope="session")
def s3a_jars() -> Path:
    """The jars, downloaded once for all runs."""
    try:
        return install_jars(S3A)
    except StorageUnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the S3A jars cannot be downloaded: {error.message}")


def copy_table(
    source: HandWrittenTable, target: StoreLocation, connection: StoreConnection | None = None
) -> None:
    local, store = source.location.open(), target.open(connection)
    for info in local.list():
        store.put(info.path, local.get(info.path))


def two_partitions(folder: Path) -> HandWrittenTable:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    table = HandWrittenTable.create(folder, schema, partition_by=("p",))
    rows = {p: pa.table({"id": [n], "p": [p]}, schema=schema) for n, p in enumerate("xy")}
    table.commit("1", {(p, f"{p}-0"): part for p, part in rows.items()})
    return table


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.minio
@pytest.mark.usefixtures("s3a_jars")
def test_a_table_on_s3_is_read(
    tmp_path: Path,
    s3_location: StoreLocation,
    minio_server: MinioServer,
) -> None:
    copy_table(two_partitions(tmp_path / "t"), s3_location)
    endpoint = dict(s3_location.options)["endpoint"]
    # An endpoint in the environment must not win over the one that was given.
    environment = {**os.environ, "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}
    answer = subprocess.run(
        [sys.executable, "-c", READ, s3_location.uri, endpoint],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=tmp_path,
    )
    assert answer.stdout.splitlines() == ["[(0, 'x')]", "2"], answer.stderr
    assert answer.stderr == ""
    for secret in minio_server.environment().values():
        assert secret not in answer.stdout + answer.stderr


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.minio
@pytest.mark.usefixtures("s3a_jars")
def test_a_web_identity_reads_as_spark_does(tmp_path: Path) -> None:
    with OpenIdIssuer() as issuer, MinioServer(trusting(issuer.url + DISCOVERY_PATH)) as server:
        location = StoreLocation.of(f"s3://{server.create_bucket()}/t", server.storage_options())
        keys = StoreConnection(S3Credentials(server.access_key, server.secret_key))
        copy_table(two_partitions(tmp_path / "t"), location, keys)
        token = tmp_path / "token"
        token.write_text(issuer.token())
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("AWS_")
        } | {
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            "AWS_ROLE_ARN": role_arn(),
            "AWS_ENDPOINT_URL_STS": server.endpoint,
            "AWS_REGION": "us-east-1",
        }
        answer = subprocess.run(
            [sys.executable, "-c", READ, location.uri, server.endpoint],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            cwd=tmp_path,
        )
    assert answer.stdout.splitlines() == ["[(0, 'x')]", "2"], answer.stderr
    assert answer.stderr == ""


def test_the_project_keeps_the_large_bundle_out() -> None:
    project = ElementTree.fromstring(project_object_model(S3A.artifacts))
    dependencies = {
        item.findtext("artifactId"): {
            group.text for group in item.iterfind("exclusions/exclusion/groupId")
        }
        for item in project.iter("dependency")
    }
    assert set(dependencies) == {artifact.name for artifact in S3A.artifacts}
    assert dependencies["hadoop-aws"] == {"*"}
    assert "io.netty" in dependencies["s3"]
    assert "bundle" not in dependencies


def test_jars_that_are_there_are_not_downloaded_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = jars_folder(S3A, tmp_path)
    folder.mkdir(parents=True)
    assert find_jars(S3A, tmp_path) is None
    jar = folder / "hadoop-aws-3.5.0.jar"
    jar.touch()
    assert find_jars(S3A, tmp_path) == (jar,)
    assert main(["--cache", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(folder)


def test_a_failed_download_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    maven = tmp_path / "bin" / "mvn"
    maven.parent.mkdir()
    maven.write_text("#!/bin/sh\necho 'no route to the repository' >&2\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{maven.parent}:{os.environ['PATH']}")
    assert main(["--cache", str(tmp_path / "cache")]) == StorageUnavailableError.exit_code
    assert "no route to the repository" in capsys.readouterr().err
    assert list((tmp_path / "cache" / "jars").iterdir()) == []
