"""`tideline iceberg rewrite` of a table in S3, by a Spark of its own: PyIceberg finds the same."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tideline.testing.minio_server import MinioServer

pytest.importorskip("pyiceberg")

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

pytestmark = pytest.mark.minio

NAME = "sales.orders"
SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string())])


@pytest.mark.slow
@pytest.mark.usefixtures("minio_credentials")
def test_a_sorted_rewrite_in_s3(
    minio_server: MinioServer, minio_bucket: str, tmp_path: Path
) -> None:
    uri = f"sqlite:///{tmp_path}/catalog.db"
    s3 = {"s3.endpoint": minio_server.endpoint, "s3.region": "us-east-1"}
    warehouse = f"s3://{minio_bucket}/{secrets.token_hex(8)}"
    catalog = SqlCatalog("lake", uri=uri, warehouse=warehouse, **s3)
    catalog.create_namespace("sales")
    table = catalog.create_table(NAME, SCHEMA)
    with table.update_spec() as update:
        update.add_field("region", IdentityTransform(), "region")
    for start in range(0, 60, 10):
        regions = [("EU", "US")[number % 2] for number in range(10)]
        numbers = list(range(start + 9, start - 1, -1))
        table.append(pa.table({"id": numbers, "region": regions}, schema=SCHEMA))

    options = [f"--catalog-option={name}={value}" for name, value in s3.items()]
    reached = ["--endpoint", minio_server.endpoint, "--region", "us-east-1", "--allow-http"]
    options.append(f"--catalog-option=uri={uri}")
    arguments = ["--catalog", "lake", *options, *reached, NAME, "--sort-order", "id", "--json"]
    command = [sys.executable, "-m", "tideline", "iceberg", "rewrite", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["files_rewritten"], report["files_added"]) == (12, 2)

    rewritten = catalog.load_table(NAME)
    files = [task.file.file_path for task in rewritten.scan().plan_files()]
    assert len(files) == 2
    assert all(path.startswith(warehouse) for path in files)
    rows = rewritten.scan().to_arrow()
    assert sorted(rows["id"].to_pylist()) == list(range(60))
    for region in ("EU", "US"):
        ids = rows.filter(pc.equal(rows["region"], region))["id"].to_pylist()
        assert ids == sorted(ids)
