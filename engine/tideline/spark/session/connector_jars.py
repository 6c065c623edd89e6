"""The jars that Spark needs for stores: found, or installed once per machine.

`tideline install-jars` installs those of a connector, and so does
`python -m tideline.spark.session.connector_jars [NAME]`; sessions that use such a location then
find them. They come from the Maven repository the machine is set up for: through `mvn` where it is
installed, else through the Ivy that Spark brings along. A copy in pyspark's own `jars` folder, as
container images have it, is found as well.

A repository is not trusted: the release names every jar with its digest, and others are refused.
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
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pyspark

from tideline.cache_directory import cache_directory
from tideline.errors import ConfigError, InvalidDataError, StorageUnavailableError, TidelineError
from tideline.spark.session.connectors import (
    CONNECTORS,
    INSTALL_COMMAND,
    S3A,
    Connector,
    MavenArtifact,
)
from tideline.spark.session.start import start

_REPOSITORY = "DEFAULT_ARTIFACT_REPOSITORY"
"""The variable that Spark takes its repository from."""
_TIMEOUT_S = 900


def jars_folder(connector: Connector, cache: Path | None = None) -> Path:
    """Where the jars are installed, whether they are there or not."""
    return (cache or cache_directory()) / "jars" / connector.folder


def find_jars(connector: Connector, cache: Path | None = None) -> tuple[Path, ...] | None:
    """The installed jars, None when there are none. Installing is all or nothing."""
    folder = jars_folder(connector, cache)
    is_there = (folder / connector.artifacts[0].jar).is_file()
    return tuple(sorted(folder.glob("*.jar"))) if is_there else None


def has_own_jars(connector: Connector) -> bool:
    """Whether the jars are among those of Spark itself, as in container images."""
    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent) / "jars"
    return (jars / connector.artifacts[0].jar).is_file()


def needed_jars(connector: Connector) -> tuple[Path, ...]:
    """The jars to add to Spark's own; none where they are there. Raises ConfigError when they are
    not installed."""
    if has_own_jars(connector):
        return ()
    found = find_jars(connector)
    if found is None:
        raise ConfigError(
            f"Spark needs jars for locations on {connector.stores}: run "
            f"`{connector.install_command}` once"
        )
    return found


def install_jars(connector: Connector, cache: Path | None = None) -> Path:
    """Download the jars unless they are there; the folder they are in.

    Raises StorageUnavailableError when the Maven repository does not give them, InvalidDataError
    for one that is not the jar of that name.
    """
    folder = jars_folder(connector, cache)
    if find_jars(connector, cache):
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{connector.name}-") as temporary:
        downloaded = Path(temporary) / "jars"
        downloaded.mkdir()
        if maven := shutil.which("mvn"):
            _download_with_maven(maven, connector, Path(temporary), downloaded)
        else:
            _download_with_ivy(connector, Path(temporary), downloaded)
        check_digests(connector, downloaded)
        try:
            downloaded.rename(folder)
        except OSError:
            # Another process has installed the same jars.
            if not find_jars(connector, cache):
                raise
    return folder


def check_digests(connector: Connector, folder: Path) -> None:
    """Raises InvalidDataError for a jar that is not one of the release's, byte by byte, and
    StorageUnavailableError when one is missing."""
    known = connector.digests()
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


def project_object_model(artifacts: Iterable[MavenArtifact]) -> str:
    """A Maven project (pom.xml) that depends on the artifacts and nothing else."""
    dependencies = "\n".join(_dependency(artifact) for artifact in artifacts)
    return (
        "<project>\n<modelVersion>4.0.0</modelVersion>\n"
        "<groupId>tideline</groupId><artifactId>jars</artifactId><version>1</version>\n"
        f"<dependencies>\n{dependencies}\n</dependencies>\n</project>\n"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the jars and print where they are."""
    parser = argparse.ArgumentParser(prog=INSTALL_COMMAND, description="Download Spark's jars.")
    parser.add_argument("store", nargs="?", choices=sorted(CONNECTORS), default=S3A.name)
    parser.add_argument("--cache", type=Path, help="cache folder (default: ~/.cache/tideline)")
    options = parser.parse_args(arguments)
    try:
        print(install_jars(CONNECTORS[options.store], options.cache))
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


def _download_with_maven(
    maven: str, connector: Connector, temporary: Path, downloaded: Path
) -> None:
    project = temporary / "pom.xml"
    project.write_text(project_object_model(connector.artifacts), encoding="utf-8")
    _run(
        [
            *(maven, "--quiet", "--batch-mode", "--file", str(project)),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            f"-DoutputDirectory={downloaded}",
        ]
    )


def _download_with_ivy(connector: Connector, temporary: Path, downloaded: Path) -> None:
    """Let `spark-submit` resolve the artifacts for a program that does nothing.

    Runs in a process of its own: a session of this one could not be given other jars any more.
    """
    program = (
        "from tideline.spark.session.connector_jars import resolve_with_ivy; "
        f"resolve_with_ivy({connector.name!r}, {str(temporary / 'ivy')!r})"
    )
    _run([sys.executable, "-P", "-c", program])
    for jar in (temporary / "ivy" / "jars").glob("*.jar"):
        # Ivy puts the group in front: org.apache.hadoop_hadoop-aws-3.5.0.jar.
        jar.rename(downloaded / jar.name.partition("_")[2])


def resolve_with_ivy(name: str, ivy_folder: str) -> None:
    """Start and stop a Spark session that asks for the artifacts, into `ivy_folder`.

    The file of an artifact that is wanted alone is copied from the repository: Spark names none
    with a classifier to Ivy, and excludes dependencies of all artifacts only.
    """
    connector = CONNECTORS[name]
    resolved = [artifact for artifact in connector.artifacts if not artifact.is_alone]
    configuration = {"spark.ui.enabled": "false"}
    if resolved:
        configuration |= {
            "spark.jars.packages": ",".join(artifact.coordinates for artifact in resolved),
            "spark.jars.excludes": ",".join(connector.ivy_excludes),
            "spark.jars.ivy": ivy_folder,
        }
    spark = start(f"{name}-jars", "local[1]", configuration)
    jvm: Any = spark._jvm
    central = jvm.org.apache.ivy.plugins.resolver.IBiblioResolver.DEFAULT_M2_ROOT
    root = (os.environ.get(_REPOSITORY) or central).removesuffix("/")
    for artifact in connector.artifacts:
        if artifact.is_alone:
            source = jvm.java.net.URL(f"{root}/{artifact.path}")
            target = f"{ivy_folder}/jars/{artifact.group}_{artifact.jar}"
            jvm.org.apache.commons.io.FileUtils.copyURLToFile(source, jvm.java.io.File(target))
    spark.stop()


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
        raise StorageUnavailableError("downloading jars for Spark failed", value=tail) from error
    except subprocess.TimeoutExpired as error:
        message = "downloading jars for Spark timed out"
        raise StorageUnavailableError(message, value=_TIMEOUT_S) from error


if __name__ == "__main__":
    sys.exit(main())
