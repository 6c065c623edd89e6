"""Jars from Maven's repository, with what they depend on, in the user's cache."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tideline.cache_directory import cache_directory
from tideline.spark.session.s3a_jars import MavenArtifact, project_object_model
from tideline.testing.peer_environment import PeerUnavailableError, run_step


def fetched_jars(name: str, artifacts: Iterable[MavenArtifact]) -> Path:
    """The folder of this name, fetched if need be. Raises PeerUnavailableError."""
    folder = cache_directory() / "jars" / name
    if folder.is_dir():
        return folder
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerUnavailableError(f"{name} is fetched by Maven, and there is no mvn")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        project, fetched = Path(temporary) / "pom.xml", Path(temporary) / "jars"
        project.write_text(project_object_model(tuple(artifacts)))
        run_step(
            [maven, "--quiet", "--batch-mode", "--file", str(project),
             "dependency:copy-dependencies", "-DincludeScope=runtime",
             f"-DoutputDirectory={fetched}"]
        )  # fmt: skip
        if not folder.is_dir():  # else another process was faster
            fetched.rename(folder)
    return folder
