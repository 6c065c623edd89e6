"""Releases as `make release` and `make publish` make them, in a registry on this machine."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from e2e.build.versions import kubernetes_folder, tools_folder
from e2e.harness.image_registry import ImageRegistry
from tools.release.next_version import name_next_version
from tools.release.source_tree import version_of

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Made:
    """The files of a release of a source, and the registry that they name."""

    folder: Path
    version: str
    source: Path
    registry: ImageRegistry
    place: str
    environment: dict[str, str]

    def run(self, command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A line of shell, in the folder of the files, with the programs of users on the PATH."""
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=cwd or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
        )

    def done(self, command: str, cwd: Path | None = None) -> str:
        """What it prints; it has to succeed."""
        found = self.run(command, cwd)
        assert found.returncode == 0, f"{command}\n{found.stdout}{found.stderr}"
        return found.stdout

    def release(self, verb: str, out: Path) -> str:
        """What `make release` or `make publish` runs, with the files below `out`."""
        program = f"cd {self.source}; {sys.executable} -m tools.release {verb} {self.version}"
        return f"{program} --registry {self.place} --out {out}"

    @classmethod
    @contextmanager
    def published(cls, folder: Path) -> Iterator[Made]:
        """A release of HEAD, pushed to a registry that is served for the length of a block."""
        registry = ImageRegistry(folder / "registry")
        place, version = f"{registry.address}/tideline", version_of(ROOT)
        environment = {
            **os.environ,
            "PATH": f"{tools_folder()}:{kubernetes_folder()}:{os.environ['PATH']}",
            "COSIGN_PASSWORD": secrets.token_urlsafe(16),
            "COSIGN_KEY": str(folder / "cosign.key"),
            "REGISTRY": place,
            "VERSION": version,
        }
        made = cls(folder / version, version, ROOT, registry, place, environment)
        made.done("cosign generate-key-pair", folder)
        with registry.served():
            made.push()
            yield made

    def push(self) -> None:
        """Make it, and push it."""
        for verb in ("build", "publish"):
            self.done(self.release(verb, self.folder.parent), self.folder.parent)

    def next_one(self, folder: Path) -> Made:
        """A release of the same code that names the next version, pushed as well."""
        source, last = folder / "source", self.version.rpartition(".")
        version = f"{last[0]}.{int(last[2]) + 1}"
        self.done(f"git clone --quiet {self.source} {source}", folder)
        changelog = source / "CHANGELOG.md"
        text = changelog.read_text("utf-8")
        added = "## [Unreleased]\n\n### Changed\n\n- Nothing but the version.\n"
        changelog.write_text(text.replace("## [Unreleased]\n", added, 1), "utf-8")
        name_next_version(source, version, datetime.now(UTC).date())
        author = "-c user.name=release -c user.email=release@tideline.dev"
        self.done(f"git {author} commit --quiet --all --message 'Version {version}'", source)
        made = replace(
            self,
            folder=self.folder.parent / version,
            version=version,
            source=source,
            environment={**self.environment, "VERSION": version},
        )
        made.push()
        return made
