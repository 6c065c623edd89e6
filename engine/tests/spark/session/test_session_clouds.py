"""Spark works on tables on Azure and on Google's storage, emulated, by Hadoop's connectors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tideline import LakeTable
from tideline.errors import StorageUnavailableError
from tideline.spark.session.connector_jars import install_jars
from tideline.spark.session.connectors import ABFS, GCS, Connector
from tideline.storage.location import StoreLocation
from tideline.testing.azurite_server import AzuriteServer
from tideline.testing.cloud_fixtures import CONTAINER
from tideline.testing.fake_gcs_server import FakeGcsServer
from tideline.testing.gcs_server import GcsServer
from tideline.testing.go_toolchain import go_command

pytestmark = [pytest.mark.spark, pytest.mark.slow]

USE = """
import json, sys
from tideline import LakeTable
from tideline.cli.main import run
from tideline.spark.session.spark_session import spark_session
from tideline.spark.read.data_source import register
from tideline.storage.location import StoreLocation

uri, options = sys.argv[1], json.loads(sys.argv[2])
location = StoreLocation.of(uri, options)
spark = spark_session("clouds", master="local[1]", locations=[location],
                      extra_conf={"spark.driver.memory": "1g"})
register(spark)
landing = StoreLocation.of(uri + "-landing", options)
landing.open().put("1.csv", b"id,at,name\\n0,2,landed\\n1000,2,landed\\n")
for table_type in ("COPY_ON_WRITE", "MERGE_ON_READ"):
    place = f"{uri}/{table_type}"
    table = LakeTable.create(place, record_key="id", ordering="at", table_type=table_type,
                             storage_options=options)
    rows = spark.range(100).selectExpr("cast(id as string) id", "1L as at", "'new' as name")
    table.write(rows)
    table.write(rows.where("id < 10").selectExpr("id", "2L as at", "'changed' as name"))
    assert run(["write", place, "--source", landing.uri, "--format", "csv"]) == 0
    frame = table.snapshot(spark)
    print(frame.count(), frame.where("name = 'changed'").count(),
          frame.where("name = 'landed'").count(),
          spark.read.format("tideline").options(**options).load(place).count())
"""

READ = """
import json, sys
from tideline import LakeTable
from tideline.spark.session.spark_session import spark_session
from tideline.storage.location import StoreLocation

uri, options = sys.argv[1], json.loads(sys.argv[2])
location = StoreLocation.of(uri, options)
spark = spark_session("clouds", master="local[1]", locations=[location],
                      extra_conf={"spark.driver.memory": "1g"})
table = LakeTable.open(uri, storage_options=options)
print(sorted(row["id"] for row in table.snapshot(spark).collect()))
"""

SHOW = """
import json, pathlib, sys, urllib.request
from tideline import LakeTable
from tideline.spark.session.spark_session import spark_session
from tideline.storage.location import StoreLocation

uri, options = sys.argv[1], json.loads(sys.argv[2])
location, logs = StoreLocation.of(uri, options), pathlib.Path("logs").absolute()
logs.mkdir()
spark = spark_session("clouds", master="local[1]", locations=[location], extra_conf={
    "spark.driver.memory": "1g", "spark.ui.enabled": "true", "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false", "spark.eventLog.dir": logs.as_uri()})
rows = LakeTable.open(uri, storage_options=options).snapshot(spark)
print(rows.count())
rows.explain("extended")
page = spark.sparkContext.uiWebUrl + "/api/v1/applications/" + spark.sparkContext.applicationId
shown = [urllib.request.urlopen(page + "/environment").read().decode(),
         spark.sparkContext.getConf().toDebugString(),
         *(str(spark.sql(text).collect()) for text in ("SET", "SET -v"))]
spark.stop()
shown += [file.read_text() for file in logs.rglob("*") if file.is_file()]
print("-", *shown)
print(sum("${env.AZURE_STORAGE_ACCOUNT_KEY}" in text for text in shown))
"""


def jars(connector: Connector) -> None:
    """Install them, once for all runs."""
    try:
        install_jars(connector)
    except StorageUnavailableError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the jars for {connector.stores} cannot be downloaded: {error.message}")


def ran(
    program: str, uri: str, options: Mapping[str, str], environment: Mapping[str, str], cwd: Path
) -> list[str]:
    """What the program prints, whose environment has these credentials."""
    endpoints = {
        f"TIDELINE_{name.upper()}": value for name, value in options.items() if value != "true"
    }
    done = subprocess.run(
        [sys.executable, "-c", program, uri, json.dumps(options)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **endpoints, "TIDELINE_ALLOW_HTTP": "true", **environment},
        cwd=cwd,
    )
    lines = [line for line in done.stdout.splitlines() if line[:1] in "0123456789["]
    assert done.returncode == 0, done.stderr
    assert "ERROR" not in done.stderr
    for name, value in environment.items():
        if value and name.endswith(("_KEY", "_TOKEN")):
            assert value not in done.stdout + done.stderr
    return lines


@pytest.mark.azurite
def test_tables_on_azure(azurite_server: AzuriteServer, tmp_path: Path) -> None:
    jars(ABFS)
    options, environment = azurite_server.storage_options(), azurite_server.environment()
    lines = ran(USE, f"{azurite_server.uri(CONTAINER)}/spark", options, environment, tmp_path)
    assert lines == ["101 9 2 101", "101 9 2 101"]


@pytest.mark.azurite
def test_a_shared_access_signature_reads(
    azure_location: StoreLocation, azurite_server: AzuriteServer, tmp_path: Path
) -> None:
    """Azurite deletes several blobs at once by no signature: the table is made with the key."""
    jars(ABFS)
    options = dict(azure_location.options)
    table = LakeTable.create(azure_location.uri, record_key="id", storage_options=options)
    table.write([{"id": str(number)} for number in range(4)])
    environment = {
        "AZURE_STORAGE_SAS_TOKEN": azurite_server.signature(),
        "AZURE_CREDENTIAL_TYPE": "sas_token",
        "AZURE_STORAGE_ACCOUNT_KEY": "",
    }
    lines = ran(READ, azure_location.uri, options, environment, tmp_path)
    assert lines == ["['0', '1', '2', '3']"]


@pytest.mark.azurite
def test_what_spark_shows_of_its_settings_has_no_key(
    azure_location: StoreLocation, azurite_server: AzuriteServer, tmp_path: Path
) -> None:
    """Neither its page about the environment, its settings by SQL, plans nor event logs."""
    jars(ABFS)
    options, environment = dict(azure_location.options), azurite_server.environment()
    table = LakeTable.create(azure_location.uri, record_key="id", storage_options=options)
    table.write([{"id": "1"}])
    lines = ran(SHOW, azure_location.uri, options, environment, tmp_path)
    assert lines[0] == "1"
    assert int(lines[-1]) >= 2


def test_tables_on_google(tmp_path: Path) -> None:
    jars(GCS)
    with GcsServer(CONTAINER) as server:
        options, environment = server.storage_options(), server.environment()
        lines = ran(USE, f"gs://{CONTAINER}/spark", options, environment, tmp_path)
    assert lines == ["101 9 2 101", "101 9 2 101"]


def test_a_table_is_read_from_another_emulator_of_googles(tmp_path: Path) -> None:
    """fake-gcs-server has no conditional write of the XML API: its objects are put there."""
    jars(GCS)
    go_command()
    table = LakeTable.create(str(tmp_path / "t"), record_key="id", partition_by="p")
    table.write([{"id": str(number), "p": f"p{number % 2}"} for number in range(4)])
    local = StoreLocation.of(tmp_path / "t").open()
    with FakeGcsServer() as server:
        bucket = server.create_bucket()
        for info in local.list():
            server.put(bucket, f"t/{info.path}", local.get(info.path))
        options, environment = server.storage_options(), {"GOOGLE_SKIP_SIGNATURE": "1"}
        lines = ran(READ, f"gs://{bucket}/t", options, environment, tmp_path)
    assert lines == ["['0', '1', '2', '3']"]
