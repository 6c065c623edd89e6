"""Tables as Hudi's own HiveSyncTool registers them, and Spark with Hudi's bundle reading by name
what Tideline registered."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tideline.lake_table import LakeTable
from tideline.registration.definition import spark_schema_of
from tideline.registration.hive import HiveMetastore
from tideline.registration.metastore import RegisteredTable
from tideline.registration.sync import LAST_COMPLETION, SETTLED_UNTIL
from tideline.registration.table_name import TableName
from tideline.testing.hive_metastore_server import HiveMetastoreServer
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.peer_environment import PeerEnvironment, prepare_hudi_peer
from tideline.testing.spark_peer import SMALL_DATA_SETTINGS

pytestmark = [pytest.mark.slow, pytest.mark.interop]

QUIET = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}
OTHERS = {
    "transient_lastDdlTime", "numFiles", "totalSize", "numRows", "rawDataSize",
    "numPartitions", "STATS_GENERATED_VIA_STATS_TASK", "hudi_writer_version", SETTLED_UNTIL,
}  # fmt: skip
Sync = Callable[..., None]


@pytest.fixture(scope="module")
def hive_sync_tool(hive_metastore: HiveMetastoreServer) -> Sync:
    """Hudi's tool, out of its Spark bundle and the jars of the Spark that it is for."""
    environment = prepare_hudi_peer()
    (spark,) = environment.python.parents[1].glob("lib/python3*/site-packages/pyspark/jars")
    variables = PeerEnvironment.process_environment()
    java = Path(variables["JAVA_HOME"]) / "bin" / "java"

    def sync(uri: str, name: TableName, *partition_columns: str, **more: str) -> None:
        options = {
            "sync-mode": "hms",
            "metastore-uris": hive_metastore.uri,
            "database": name.database,
            "table": name.name,
            "base-path": uri,
            **more,
        }
        given = [word for option, text in options.items() for word in (f"--{option}", text)]
        given += ["--support-timestamp"]
        if partition_columns:
            given += ["--partitioned-by", ",".join(partition_columns)]
            given += [
                "--partition-value-extractor",
                "org.apache.hudi.hive.MultiPartKeysValueExtractor",
            ]
        command = [str(java), "-Xmx512m", "-XX:TieredStopAtLevel=1"]
        command += ["--add-opens=java.base/java.net=ALL-UNNAMED"]
        command += ["-cp", os.pathsep.join((str(environment.jar), f"{spark}/*"))]
        command += ["org.apache.hudi.hive.HiveSyncTool", *given]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]

    return sync


@pytest.fixture(scope="module")
def metastore(hive_metastore: HiveMetastoreServer) -> HiveMetastore:
    return HiveMetastore.at(hive_metastore.uri)


@pytest.fixture(scope="module")
def reader(
    hive_metastore: HiveMetastoreServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HudiPeer]:
    """Spark with Hudi's bundle that finds tables in the metastore."""
    settings = {
        **SMALL_DATA_SETTINGS,
        "spark.sql.catalogImplementation": "hive",
        "spark.hadoop.hive.metastore.uris": hive_metastore.uri,
    }
    scratch = tmp_path_factory.mktemp("hudi-by-name")
    with HudiPeer(prepare_hudi_peer(), scratch, spark_settings=settings) as peer:
        yield peer


def rows(keys: range, v: int) -> pa.Table:
    columns: dict[str, Any] = {
        "id": [f"k{number}" for number in keys],
        "part": [f"p{number % 3}" for number in keys],
        "V": [v] * len(keys),
        "price": pa.array([1] * len(keys), pa.decimal128(10, 2)),
        "at": pa.array([0] * len(keys), pa.timestamp("us", tz="UTC")),
        "day": pa.array([19000] * len(keys), pa.date32()),
        "tags": [["a"]] * len(keys),
        "place": [{"City": "x", "zip": 1}] * len(keys),
        "fares": pa.array([[("a", 1.5)]] * len(keys), pa.map_(pa.string(), pa.float64())),
    }
    return pa.table(columns)


def written(folder: Path, **more: Any) -> LakeTable:
    table = LakeTable.create(
        folder.as_uri(),
        record_key="id",
        partition_by="part",
        name="trips",
        properties=QUIET,
        **more,
    )
    table.write(rows(range(6), 1))
    table.write(rows(range(2), 2))
    return table


def comparable(table: RegisteredTable | None, metastore: HiveMetastore, left_out: Set[str]) -> Any:
    assert table is not None
    kept = {name: text for name, text in table.parameters.items() if name not in left_out}
    schema = json.loads(spark_schema_of(kept))
    parameters = {name: text for name, text in kept.items() if ".schema.part." not in name}
    plain = replace(table, parameters=parameters, name=TableName("d", "t")), schema
    partitions = sorted(metastore.partitions(table), key=lambda partition: partition.values)
    return plain, partitions


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_what_is_registered_is_what_hudis_tool_registers(
    version: int,
    table_type: str,
    tmp_path: Path,
    metastore: HiveMetastore,
    hive_sync_tool: Sync,
    hive_metastore: HiveMetastoreServer,
) -> None:
    table = written(tmp_path / "t", table_type=table_type, table_version=version, hive_style=True)
    database = f"d_{uuid.uuid4().hex[:8]}"
    hive_sync_tool(table.hoodie_table.hadoop_uri, TableName(database, "theirs"), "part")
    table.sync(hive=hive_metastore.uri, database=database, name="ours")
    # Of version 6 Hudi's tool takes the times of files for those of completion.
    left_out = OTHERS | {LAST_COMPLETION} if version == 6 else OTHERS
    suffixes = ("_ro", "_rt", "") if table_type == "MERGE_ON_READ" else ("",)
    for suffix in suffixes:
        theirs = metastore.table(TableName(database, f"theirs{suffix}"))
        ours = metastore.table(TableName(database, f"ours{suffix}"))
        assert comparable(ours, metastore, left_out) == comparable(theirs, metastore, left_out)
    # Each continues where the other was.
    (done,) = table.sync(hive=hive_metastore.uri, database=database, name="theirs")
    assert not done.is_changed
    table.write(rows(range(6, 8), 3))
    hive_sync_tool(table.hoodie_table.hadoop_uri, TableName(database, "ours"), "part")
    (done,) = table.sync(hive=hive_metastore.uri, database=database, name="ours")
    assert not done.is_changed


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_spark_finds_by_name_what_is_registered(
    table_type: str, tmp_path: Path, reader: HudiPeer, hive_metastore: HiveMetastoreServer
) -> None:
    table = written(tmp_path / "t", table_type=table_type)
    database = f"d_{uuid.uuid4().hex[:8]}"
    table.sync(hive=hive_metastore.uri, database=database)
    statement = f"select id, V, part, day, place.City as city from {database}.trips order by id"
    found = reader.sql(statement).to_pylist()
    assert [(row["id"], row["V"], row["part"], row["city"]) for row in found] == [
        (f"k{number}", 2 if number < 2 else 1, f"p{number % 3}", "x") for number in range(6)
    ]
    pruned = reader.sql(f"select count(*) as n from {database}.trips where part = 'p1'")
    assert pruned.to_pylist() == [{"n": 2}]
    if table_type == "MERGE_ON_READ":
        as_compacted = reader.sql(f"select sum(V) as v from {database}.trips_ro").to_pylist()
        merged = reader.sql(f"select sum(V) as v from {database}.trips_rt").to_pylist()
        assert (as_compacted, merged) == ([{"v": 6}], [{"v": 8}])
