"""Hudi on tables in MinIO, under Hudi's storage lock, next to other writers.

Hudi's bundle holds the lock (`StorageBasedLockProvider`) but not what it needs to reach S3, a class
of another jar that it looks up by name. `S3StorageLockClient.java`, of this project, stands in for
that: it is compiled once, against the bundle, into the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tideline.cache_directory import cache_directory
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.minio_server import MinioServer
from tideline.testing.peer_environment import (
    PeerEnvironment,
    only_builder,
    prepare_hudi_peer,
    prepare_jar,
    run_step,
)
from tideline.testing.spark_peer import SMALL_DATA_SETTINGS

# The releases that Spark 3.5 was built with.
HADOOP_AWS = "org.apache.hadoop:hadoop-aws:3.3.4"
AWS_SDK = "com.amazonaws:aws-java-sdk-bundle:1.12.262"
LOCK_CLIENT = Path(__file__).with_name("S3StorageLockClient.java")

STORAGE_LOCK = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": (
        "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider"
    ),
    "hoodie.clean.failed.writes.policy": "LAZY",
}
"""Settings of a Hudi writer that others write next to."""

SHORT_LEASE = {
    "hoodie.write.lock.storage.validity.timeout.secs": "10",
    "hoodie.write.lock.storage.renew.interval.secs": "1",
}
"""The shortest that Hudi allows."""


@dataclass(frozen=True, slots=True)
class HudiOnS3:
    """What a Hudi needs to work on the tables of one MinIO."""

    environment: PeerEnvironment
    s3_jars: tuple[Path, ...]
    lock_jar: Path
    endpoint: str

    @classmethod
    def prepare(cls, server: MinioServer) -> HudiOnS3:
        """Build or fetch what is missing.

        Raises PeerUnavailableError with the failing step's output.
        """
        environment = prepare_hudi_peer()
        with only_builder("hudi-on-s3"):
            s3_jars = tuple(
                prepare_jar(coordinate, environment.python) for coordinate in (HADOOP_AWS, AWS_SDK)
            )
            lock_jar = _compile_lock_client((environment.jar, *s3_jars))
        return cls(environment, s3_jars, lock_jar, server.endpoint)

    @contextmanager
    def start(self, scratch: Path) -> Iterator[HudiPeer]:
        """A JVM of its own, with the credentials of the environment."""
        scratch.mkdir(parents=True, exist_ok=True)
        with HudiPeer(self.environment, scratch, spark_settings=self._spark_settings()) as peer:
            yield peer

    def _spark_settings(self) -> Mapping[str, str]:
        return {
            **SMALL_DATA_SETTINGS,
            "spark.jars": f"{self.environment.jar},{self.lock_jar}",
            # Spark copies what stands in `spark.jars`, and the SDK is large.
            "spark.driver.extraClassPath": ":".join(map(str, self.s3_jars)),
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            # Hudi leaves connections open, so that the default is not enough for a test.
            "spark.hadoop.fs.s3a.connection.maximum": "5000",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        }


@pytest.fixture(scope="module")
def hudi_on_s3(minio_server: MinioServer) -> Iterator[HudiOnS3]:
    """A Hudi for the run's MinIO; what reaches it there is in the environment meanwhile."""
    with pytest.MonkeyPatch.context() as environment:
        for name, value in {
            **minio_server.environment(),
            "AWS_ENDPOINT_URL": minio_server.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
        }.items():
            environment.setenv(name, value)
        yield HudiOnS3.prepare(minio_server)


@pytest.fixture
def hudi_peer_on_s3(hudi_on_s3: HudiOnS3, tmp_path: Path) -> Iterator[HudiPeer]:
    """A JVM for one test: Hudi leaves connections open, until none is left for the next."""
    with hudi_on_s3.start(tmp_path / "hudi-on-s3") as peer:
        yield peer


def _compile_lock_client(class_path: tuple[Path, ...]) -> Path:
    source = LOCK_CLIENT.read_bytes()
    against = " ".join(jar.name for jar in class_path).encode()
    version = hashlib.sha256(source + against).hexdigest()[:16]
    jar = cache_directory() / "jars" / f"s3-storage-lock-client-{version}.jar"
    if jar.exists():
        return jar
    with tempfile.TemporaryDirectory(dir=jar.parent) as folder:
        classes, packed = Path(folder) / "classes", Path(folder) / jar.name
        run_step(
            [
                *("javac", "-proc:none", "-nowarn", "--release", "11", "-d", str(classes)),
                *("-classpath", os.pathsep.join(map(str, class_path)), str(LOCK_CLIENT)),
            ]
        )
        with zipfile.ZipFile(packed, "w") as archive:
            for path in sorted(classes.rglob("*.class")):
                archive.write(path, path.relative_to(classes))
        packed.rename(jar)
    return jar
