"""Fixtures that every test folder shares: one Spark session per run, stores, the peers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tideline.secret_values import forgotten

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest_plugins = [
    "tideline.testing.suite_schedule",
    "tideline.testing.fault_report",
    "tideline.testing.minio_fixtures",
    "tideline.testing.cloud_fixtures",
    "tideline.testing.s3_peers",
    "tideline.testing.kafka_broker",
    "tideline.testing.postgres_server",
    "tideline.testing.hudi_peer",
    "tideline.testing.hudi_on_s3",
    "tideline.testing.concurrent_table",
    "tideline.testing.lance_library",
    "tideline.testing.altered_table",
    "tideline.testing.iceberg_peer",
    "tideline.testing.iceberg_rest_server",
    "tideline.testing.hive_metastore_server",
    "tideline_operator.testing.api_server_fixtures",
]
pytest.register_assert_rewrite(
    "tideline.testing.store_contract",
    "tideline.testing.remote_contract",
    "tideline.testing.s3_peer_contract",
)

# No test takes the role of the machine that it runs on.
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
os.environ["NO_GCE_CHECK"] = "true"

# A busy machine is slow now and then; that is not a property of the code.
settings.register_profile("tideline", deadline=None)
settings.load_profile("tideline")


@pytest.fixture(autouse=True)
def secrets_of_one_test() -> Iterator[None]:
    """What one test makes up is masked in that test alone."""
    with forgotten():
        yield


@pytest.fixture(scope="module")
def version_6() -> Iterator[None]:
    """For tests of the bytes of table version 6: the version of small tables unless given."""
    from tideline.testing.small_table import new_tables

    with new_tables(6):
        yield


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one warm session of the run: local[2], nothing left in the working folder."""
    from tideline.spark.session.spark_session import spark_configuration, spark_session

    warehouse = tmp_path_factory.mktemp("warehouse")
    java_options = spark_configuration("local[2]")["spark.driver.extraJavaOptions"]
    # On small data the optimising compiler costs more than it saves.
    java_options += " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    session = spark_session(
        "tideline-tests",
        master="local[2]",
        extra_conf={
            "spark.sql.warehouse.dir": str(warehouse),
            "spark.sql.shuffle.partitions": "2",
            "spark.driver.memory": "3g",
            "spark.driver.extraJavaOptions": java_options,
        },
    )
    yield session
    session.stop()
