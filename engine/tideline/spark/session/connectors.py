"""The file systems of Hadoop by which Spark reaches stores, and the Maven artifacts of each.

Every artifact is pinned, and fits the Hadoop of the pinned Spark. What Spark's own class path has
is left out: most of it is newer there, and two versions side by side break it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from tideline.storage.store_kind import StoreKind

HADOOP_VERSION = "3.5.0"
AWS_SDK_VERSION = "2.35.4"
INSTALL_COMMAND = "tideline install-jars"

_SPARK_HAS = (
    "commons-codec",
    "commons-logging",
    "io.netty",
    "org.apache.httpcomponents",
    "org.slf4j",
)


@dataclass(frozen=True, slots=True)
class MavenArtifact:
    """One artifact, and the groups of its own dependencies to leave out ("*" is all)."""

    group: str
    name: str
    version: str
    without: tuple[str, ...] = _SPARK_HAS
    classifier: str = ""

    @property
    def coordinates(self) -> str:
        return f"{self.group}:{self.name}:{self.version}"

    @property
    def is_alone(self) -> bool:
        """Whether none of its dependencies is wanted."""
        return self.without == ("*",)

    @property
    def jar(self) -> str:
        """The name of its file."""
        suffix = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.version}{suffix}.jar"

    @property
    def path(self) -> str:
        """Where a Maven repository has the file."""
        return f"{self.group.replace('.', '/')}/{self.name}/{self.version}/{self.jar}"


@dataclass(frozen=True, slots=True)
class Connector:
    """One of them.

    `name` is that of the stores, as `tideline install-jars --store` takes it; `folder` is where its
    jars are installed. The first artifact has the class `file_system`. Ivy knows exclusions for
    everything only: `ivy_excludes` are what artifacts with dependencies leave out. `settings` are
    Hadoop's, for all buckets.
    """

    name: str
    stores: str
    folder: str
    artifacts: tuple[MavenArtifact, ...]
    file_system: str
    ivy_excludes: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()

    @property
    def install_command(self) -> str:
        return INSTALL_COMMAND if self is S3A else f"{INSTALL_COMMAND} --store {self.name}"

    def digests(self) -> Mapping[str, str]:
        """The SHA-256 of each jar by its name, as this release was made with."""
        listed = (files("tideline.spark.session") / f"{self.name}.sha256").read_text("utf-8")
        return {name: digest for digest, name in map(str.split, listed.splitlines())}


_AWS = "software.amazon.awssdk"
_ACCELERATOR = "software.amazon.s3.analyticsaccelerator"
_WILDFLY = MavenArtifact("org.wildfly.openssl", "wildfly-openssl", "2.2.5.Final", without=("*",))

S3A = Connector(
    "s3",
    "S3",
    f"s3a-{HADOOP_VERSION}-{AWS_SDK_VERSION}",
    (
        MavenArtifact("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION, without=("*",)),
        MavenArtifact(_AWS, "s3", AWS_SDK_VERSION),
        MavenArtifact(_AWS, "s3-transfer-manager", AWS_SDK_VERSION),
        MavenArtifact(_AWS, "sts", AWS_SDK_VERSION),
        MavenArtifact(_AWS, "apache-client", AWS_SDK_VERSION),
        _WILDFLY,
        MavenArtifact(_ACCELERATOR, "analyticsaccelerator-s3", "1.3.1", without=("*",)),
    ),
    "org.apache.hadoop.fs.s3a.S3AFileSystem",
    (*(f"{group}:*" for group in _SPARK_HAS), f"{_AWS}.crt:aws-crt"),
    # On for all buckets otherwise, with a class that is in none of these jars.
    (("fs.s3a.committer.magic.enabled", "false"),),
)
"""13 MB instead of the 600 MB of Amazon's bundle."""

ABFS = Connector(
    "azure",
    "Azure",
    f"abfs-{HADOOP_VERSION}",
    (MavenArtifact("org.apache.hadoop", "hadoop-azure", HADOOP_VERSION, without=("*",)), _WILDFLY),
    "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem",
    # Its other client needs jars that Spark lacks.
    settings=(("fs.azure.networking.library", "JDK_HTTP_URL_CONNECTION"),),
)

_GCS_FILE_SYSTEM = "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem"
_GCS_VERSION = "hadoop3-2.2.26"

GCS = Connector(
    "gcs",
    "Google Cloud Storage",
    f"gcs-{_GCS_VERSION}",
    (
        MavenArtifact(
            "com.google.cloud.bigdataoss",
            "gcs-connector",
            _GCS_VERSION,
            without=("*",),
            classifier="shaded",
        ),
    ),
    _GCS_FILE_SYSTEM,
    # Hadoop names a class of its own for gs://, and writes sizes that this one cannot parse.
    settings=(
        ("fs.gs.impl", _GCS_FILE_SYSTEM),
        ("fs.AbstractFileSystem.gs.impl", "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS"),
        ("fs.gs.block.size", "67108864"),
        ("fs.gs.outputstream.buffer.size", "8388608"),
        ("fs.gs.outputstream.upload.chunk.size", "8388608"),
        ("fs.gs.rewrite.max.chunk.size", "536870912"),
        ("fs.gs.inputstream.min.range.request.size", "2097152"),
        ("fs.gs.inputstream.inplace.seek.limit", "8388608"),
    ),
)

CONNECTORS = {connector.name: connector for connector in (S3A, ABFS, GCS)}


def connector_of(kind: StoreKind) -> Connector | None:
    """The connector that Spark needs for a kind of store; None where it needs none."""
    return CONNECTORS[kind.connector] if kind.connector else None
