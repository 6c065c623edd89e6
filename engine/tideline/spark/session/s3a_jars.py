"""The jars Spark needs for `s3a://`: 13 MB instead of the 600 MB Amazon bundle.

`tideline install-jars` installs them once, and so does `python -m tideline.spark.session.s3a_jars`;
sessions that use an S3 location then find them. They come from the Maven
repository the machine is set up for: through `mvn` where it is installed, else through the Ivy that
Spark brings along. A copy in pyspark's own `jars` folder, as container images have it, is found as
well.

A repository is not trusted: `s3a_jars.sha256` names every jar with its digest, and others are
refused.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from xml.sax.saxutils import escape

from tideline.cache_directory import cache_directory
from tideline.errors import InvalidDataError, StorageUnavailableError, TidelineError
from tideline.spark.session.start import start

HADOOP_VERSION = "3.5.0"
AWS_SDK_VERSION = "2.35.4"
INSTALL_COMMAND = "tideline install-jars"

_CONNECTOR_JAR = f"hadoop-aws-{HADOOP_VERSION}.jar"
_TIMEOUT_S = 900


# Spark's own class path has these, most of them newer: two versions side by side break it.
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


_AWS = "software.amazon.awssdk"
_ACCELERATOR = "software.amazon.s3.analyticsaccelerator"

ARTIFACTS = (
    MavenArtifact("org.apache.hadoop", "hadoop-aws", HADOOP_VERSION, without=("*",)),
    MavenArtifact(_AWS, "s3", AWS_SDK_VERSION),
    MavenArtifact(_AWS, "s3-transfer-manager", AWS_SDK_VERSION),
    MavenArtifact(_AWS, "sts", AWS_SDK_VERSION),
    MavenArtifact(_AWS, "apache-client", AWS_SDK_VERSION),
    MavenArtifact("org.wildfly.openssl", "wildfly-openssl", "2.2.5.Final"),
    MavenArtifact(_ACCELERATOR, "analyticsaccelerator-s3", "1.3.1", without=("*",)),
)

# Ivy knows exclusions for everything only: the groups above, and what "*" leaves out by name.
_IVY_EXCLUDES = (
    *(f"{group}:*" for group in _SPARK_HAS),
    f"{_AWS}:bundle",
    f"{_AWS}.crt:aws-crt",
    "org.apache.hadoop:hadoop-common",
    "org.apache.hadoop:hadoop-client-api",
    "org.apache.hadoop:hadoop-client-runtime",
    "org.jspecify:jspecify",
)


def s3a_jars_folder(cache: Path | None = None) -> Path:
    """Where the jars are installed, whether they are there or not."""
    name = f"s3a-{HADOOP_VERSION}-{AWS_SDK_VERSION}"
    return (cache or cache_directory()) / "jars" / name


def find_s3a_jars(cache: Path | None = None) -> tuple[Path, ...] | None:
    """The installed jars, None when there are none. Installing is all or nothing."""
    folder = s3a_jars_folder(cache)
    return tuple(sorted(folder.glob("*.jar"))) if (folder / _CONNECTOR_JAR).is_file() else None


def install_s3a_jars(cache: Path | None = None) -> Path:
    """Download the jars unless they are there; the folder they are in.

    Raises StorageUnavailableError when the Maven repository does not give them, InvalidDataError
    for one that is not the jar of that name.
    """
    folder = s3a_jars_folder(cache)
    if find_s3a_jars(cache):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".s3a-") as temporary:
        downloaded = Path(temporary) / "jars"
        downloaded.mkdir()
        if maven := shutil.which("mvn"):
            _download_with_maven(maven, Path(temporary), downloaded)
        else:
            _download_with_ivy(Path(temporary), downloaded)
        check_digests(downloaded)
        try:
            downloaded.rename(folder)
        except OSError:
            # Another process has installed the same jars.
            if not find_s3a_jars(cache):
                raise
    return folder


def check_digests(folder: Path) -> None:
    """Raises InvalidDataError for a jar that is not one of `s3a_jars.sha256`, byte by byte, and
    StorageUnavailableError when one is missing."""
    listed = (files("tideline.spark.session") / "s3a_jars.sha256").read_text("utf-8")
    known = {name: digest for digest, name in map(str.split, listed.splitlines())}
    missing = sorted(name for name in known if not (folder / name).is_file())
    if missing:
        raise StorageUnavailableError(
            "the Maven repository did not give all jars", path=folder, value=missing[0]
        )
    for jar in sorted(folder.glob("*.jar")):
        digest = hashlib.sha256(jar.read_bytes()).hexdigest()
        if known.get(jar.name) != digest:
            raise InvalidDataError(
                "the Maven repository gave another jar than this release was made with: use "
                "another repository, or none of it",
                path=jar.name,
                value=digest,
            )


def project_object_model(artifacts: Iterable[MavenArtifact] = ARTIFACTS) -> str:
    """A Maven project (pom.xml) that depends on the artifacts and nothing else."""
    dependencies = "\n".join(_dependency(artifact) for artifact in artifacts)
    return (
        "<project>\n<modelVersion>4.0.0</modelVersion>\n"
        "<groupId>tideline</groupId><artifactId>s3a</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}\n</dependencies>\n</project>\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the jars and print where they are."""
    parser = argparse.ArgumentParser(prog=INSTALL_COMMAND, description="Download jars for s3a://.")
    parser.add_argument("--cache", type=Path, help="cache folder (default: ~/.cache/tideline)")
    options = parser.parse_args(arguments)
    try:
        print(install_s3a_jars(options.cache))
    except TidelineError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def _dependency(artifact: MavenArtifact) -> str:
    exclusions = "".join(
        f"<exclusion><groupId>{escape(group)}</groupId><artifactId>*</artifactId></exclusion>"
        for group in artifact.without
    )
    name = escape(artifact.classifier)
    classifier = f"<classifier>{name}</classifier>" if name else ""
    return (
        f"<dependency><groupId>{escape(artifact.group)}</groupId>"
        f"<artifactId>{escape(artifact.name)}</artifactId>"
        f"<version>{escape(artifact.version)}</version>"
        f"{classifier}"
        f"<exclusions>{exclusions}</exclusions></dependency>"
    )


def _download_with_maven(maven: str, temporary: Path, downloaded: Path) -> None:
    project = temporary / "pom.xml"
    project.write_text(project_object_model(), encoding="utf-8")
    _run(
        [
            *(maven, "--quiet", "--batch-mode", "--file", str(project)),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            f"-DoutputDirectory={downloaded}",
        ]
    )


def _download_with_ivy(temporary: Path, downloaded: Path) -> None:
    """Let `spark-submit` resolve the artifacts for a program that does nothing.

    Runs in a process of its own: a session of this one could not be given other jars any more.
    """
    program = "from tideline.spark.session.s3a_jars import resolve_with_ivy; resolve_with_ivy({!r})"
    ivy = temporary / "ivy"
    _run([sys.executable, "-P", "-c", program.format(str(ivy))])
    for jar in (ivy / "jars").glob("*.jar"):
        # Ivy puts the group in front: org.apache.hadoop_hadoop-aws-3.5.0.jar.
        jar.rename(downloaded / jar.name.partition("_")[2])


def resolve_with_ivy(ivy_folder: str) -> None:
    """Start and stop a Spark session that asks for the artifacts, into `ivy_folder`."""
    configuration = {
        "spark.jars.packages": ",".join(artifact.coordinates for artifact in ARTIFACTS),
        "spark.jars.excludes": ",".join(_IVY_EXCLUDES),
        "spark.jars.ivy": ivy_folder,
        "spark.ui.enabled": "false",
    }
    start("s3a-jars", "local[1]", configuration).stop()


def _run(command: Sequence[str]) -> None:
    try:
        subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            env=dict(os.environ),
        )
    except subprocess.CalledProcessError as error:
        tail = (error.stdout + error.stderr).strip()[-2000:]
        raise StorageUnavailableError("downloading the S3A jars failed", value=tail) from error
    except subprocess.TimeoutExpired as error:
        raise StorageUnavailableError(
            "downloading the S3A jars timed out", value=_TIMEOUT_S
        ) from error


if __name__ == "__main__":
    sys.exit(main())
