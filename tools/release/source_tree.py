"""The commit that is released, and the places in it that name the version.

A release is a function of a commit: its tree is exported, and nothing of the work tree counts.
"""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import yaml

from e2e.build.source_tree import export_commit
from tools.release.notes import has_section
from tools.release.release import ReleaseError


def commit_of(repository: Path, revision: str) -> tuple[str, int]:
    """The full hash of a revision, and the time of its commit in seconds since 1970."""
    shown = _git(repository, "log", "-1", "--format=%H %ct", revision)
    commit, _, epoch_s = shown.partition(" ")
    return commit, int(epoch_s)


def export_source(repository: Path, commit: str, version: str, folder: Path) -> None:
    """The tree of a commit that names the version everywhere. Raises ReleaseError naming the places
    that do not."""
    export_commit(repository, commit, folder)
    wrong = disagreements(folder, version)
    if wrong:
        raise ReleaseError(
            f"commit {commit[:12]} is not version {version}: "
            + "; ".join(wrong)
            + ". RELEASE.md says what a release commit has"
        )


def version_of(tree: Path) -> str:
    """That of the Python package."""
    project = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]
    return str(project["version"])


def disagreements(tree: Path, version: str) -> list[str]:
    """What in a tree names another version, in words."""
    chart = yaml.safe_load((tree / "charts/tideline/Chart.yaml").read_text("utf-8"))
    found = {
        "version in pyproject.toml": version_of(tree),
        "version in Chart.yaml": chart["version"],
        "appVersion in Chart.yaml": chart["appVersion"],
    }
    wrong = [f"{place} is {said}" for place, said in found.items() if str(said) != version]
    if not has_section((tree / "CHANGELOG.md").read_text("utf-8"), version):
        wrong.append(f"CHANGELOG.md has no section [{version}] with a date")
    return wrong


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(repository), *arguments], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise ReleaseError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout.strip()
