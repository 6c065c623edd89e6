"""Python workers of streams are connected before they import, however busy the machine is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import tideline.spark.session.worker_start as worker_start
from tideline.testing.patience import PATIENCE_S

FOLDER = Path(worker_start.__file__).parent
WORKER = """
import os, sys, time
from pathlib import Path
while not Path(sys.argv[1]).exists():  # what imports take on a busy machine
    time.sleep(0.01)
from pyspark.worker_util import get_sock_file_to_executor
with get_sock_file_to_executor(timeout=None) as stream:
    assert stream.read(2) == b"ok"
import socket
socket.create_connection(("127.0.0.1", int(sys.argv[2]))).close()
"""


def python_path(*folders: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (FOLDER, *folders)))}


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_UNIX])
def test_java_has_its_connection_before_the_worker_has_imported(
    family: socket.AddressFamily, tmp_path: Path
) -> None:
    gate = tmp_path / "imported"
    with socket.socket(family) as java, socket.create_server(("127.0.0.1", 0)) as elsewhere:
        java.bind(str(tmp_path / "socket") if family == socket.AF_UNIX else ("127.0.0.1", 0))
        java.listen(1)
        java.settimeout(PATIENCE_S)
        name = "SOCK_PATH" if family == socket.AF_UNIX else "PORT"
        address = java.getsockname()
        place = address if family == socket.AF_UNIX else str(address[1])
        worker = subprocess.Popen(
            [sys.executable, "-c", WORKER, gate, str(elsewhere.getsockname()[1])],
            env={
                **python_path(),
                f"PYTHON_WORKER_FACTORY_{name}": place,
                **({"PYTHON_WORKER_FACTORY_SECRET": "secret"} if name == "PORT" else {}),
            },
        )
        connection, _ = java.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            if name == "PORT":
                assert connection.recv(10) == b"\0\0\0\6secret"
                connection.sendall(b"\0\0\0\2ok")
            gate.touch()
            pid = int.from_bytes(connection.recv(4), "big")
            assert pid == worker.pid
            connection.sendall(b"ok")
            assert worker.wait(PATIENCE_S) == 0


def test_another_process_is_left_alone(tmp_path: Path) -> None:
    """It runs the machine's own start file, and finds no trace of ours."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.own = __file__")
    code = "import sys, sitecustomize; print(sys.own, sitecustomize.__file__, *sys.path)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=python_path(tmp_path), capture_output=True, text=True
    )
    own, again, *path = done.stdout.split()
    assert own == again == str(tmp_path / "sitecustomize.py"), done.stderr
    assert str(FOLDER) not in path


def test_a_worker_that_nobody_waits_for_reports_it_itself() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-c", "print('runs')"],
        env={**python_path(), "PYTHON_WORKER_FACTORY_PORT": str(port)},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("runs\n", "")


STREAM = """
import sys
import pyarrow as pa
import tideline
from tideline.testing.small_table import SmallTable, batch
from tideline.storage.location import StoreLocation
table = SmallTable.create(StoreLocation.of(sys.argv[1]))
table.write("insert", batch(range(3), 1, partitions=1))
spark = tideline.spark_session("stream", master="local[1]",
                               extra_conf={"spark.driver.memory": "1g"})
tideline.register(spark)
rows = []
frame = spark.readStream.format("tideline").load(sys.argv[1])
query = frame.writeStream.foreachBatch(lambda one, _: rows.extend(one.collect())).trigger(
    availableNow=True).option("checkpointLocation", sys.argv[1] + "-checkpoint").start()
query.awaitTermination()
print(len(rows))
"""
LONGER_THAN_SPARK_WAITS = """
import os, time
if "PYTHON_WORKER_FACTORY_PORT" in os.environ:
    time.sleep(13)
"""


@pytest.mark.spark
@pytest.mark.slow
def test_a_stream_survives_a_machine_that_is_busy(tmp_path: Path) -> None:
    busy = tmp_path / "busy"
    busy.mkdir()
    (busy / "sitecustomize.py").write_text(LONGER_THAN_SPARK_WAITS)
    paths = (str(busy), os.environ.get("PYTHONPATH"))
    done = subprocess.run(
        [sys.executable, "-c", STREAM, str(tmp_path / "t")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip().endswith("3"), done.stderr
