"""Jars from Maven's repository, with what they depend on, in the user's cache."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tideline.cache_directory import cache_directory
from tideline.spark.session.connector_jars import project_object_model
from tideline.spark.session.connectors import MavenArtifact
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


def require_jars(prepare: Callable[[], Path]) -> None:
    """For fixtures: without Maven their tests are skipped, saying so; under CI they fail."""
    try:
        prepare()
    except PeerUnavailableError as failure:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(failure))
