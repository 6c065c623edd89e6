"""Spark's event logs are kept in a store, and the history server shows what ran."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tideline.ingest.executors.event_logs import event_log_conf, make_event_log_folder
from tideline.storage.location import StoreLocation
from tideline.testing.free_port import free_port
from tideline.testing.minio_server import MinioServer
from tideline.testing.patience import PATIENCE_S

RUN = """
import sys
from tideline.ingest.executors.event_logs import event_log_conf, make_event_log_folder
from tideline.spark.session.spark_session import spark_session
from tideline.storage.location import StoreLocation

logs = StoreLocation.of(sys.argv[1], {"endpoint": sys.argv[2], "allow_http": "true"})
make_event_log_folder(logs)
conf = {"spark.driver.memory": "1g", **event_log_conf(logs)}
spark = spark_session("kept run", master="local[1]", locations=[logs], extra_conf=conf)
print(spark.range(7).count())
spark.stop()
"""


def test_the_folder_is_made_once() -> None:
    logs = StoreLocation.of("memory://lake/spark-events")
    make_event_log_folder(logs)
    make_event_log_folder(logs)
    assert [info.path for info in logs.open().list()] == [".spark-event-logs"]
    assert event_log_conf(StoreLocation.of("s3://lake/logs"))["spark.eventLog.dir"] == (
        "s3a://lake/logs"
    )


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.minio
def test_the_history_server_shows_what_ran(minio_server: MinioServer) -> None:
    uri = f"s3://{minio_server.create_bucket()}/spark-events"
    environment = {**os.environ, **minio_server.environment()}
    done = subprocess.run(
        [sys.executable, "-c", RUN, uri, minio_server.endpoint],
        capture_output=True, text=True, env=environment, timeout=240,
    )  # fmt: skip
    assert done.stdout.split() == ["7"], done.stderr[-2_000:]
    port = free_port()
    program = str(Path(sys.executable).with_name("tideline"))
    command = [program, "spark-history", uri, "--port", str(port),
               "--endpoint", minio_server.endpoint, "--allow-http"]  # fmt: skip
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as server:
        try:
            (shown,) = applications(f"http://127.0.0.1:{port}/api/v1/applications")
        finally:
            server.terminate()
            complaints = server.communicate(timeout=PATIENCE_S)[1]
    assert shown["name"] == "kept run", complaints
    assert shown["attempts"][0]["completed"]


def applications(url: str) -> list[dict[str, Any]]:
    """What the history server lists, once it lists anything."""
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
                found: list[dict[str, Any]] = json.loads(answer.read())
            if found:
                return found
        except (urllib.error.URLError, ConnectionError):
            pass
        time.sleep(1)
    raise TimeoutError(f"nothing is listed at {url}")
