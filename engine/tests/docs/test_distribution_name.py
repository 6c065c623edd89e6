"""The name that package managers know Tideline by: `tideline` on PyPI is another project's."""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tideline.distribution import DISTRIBUTION, installation

ROOT = Path(__file__).resolve().parents[3]
INSTALLED = re.compile(
    r"\b(?:pip3?|pipx|uvx?|poetry|conda)\s+(?:tool\s+)?(?:install|add|run|inject)\b(?P<what>[^`\n]*)"
)
OTHERS = re.compile(r"(?<![-\w./])tideline(?:\[[\w,]+\]|[=<>~!]=[\d.]+)?(?=['\"\s]|$)")
"""A requirement that pip would take from the other project."""
WITH_EXTRAS = re.compile(r"(?<![-\w./])tideline\[[a-z][a-z,]*\]")


@cache
def texts() -> dict[str, str]:
    """Every tracked text that people read or run, by its path."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z"], check=True, capture_output=True, text=True
    ).stdout
    kept = (name for name in listed.split("\0") if name and "/tests/" not in name)
    found = {}
    for name in kept:
        path = ROOT / name
        if path.suffix in (".md", ".py", ".sh", ".yaml", ".toml", ".txt", "") and path.is_file():
            found[name] = path.read_text("utf-8", errors="replace")
    return found


def of_another_project(text: str) -> list[str]:
    """The commands of a text that would install the other project, or its extras."""
    commands = [found[0] for found in INSTALLED.finditer(text) if OTHERS.search(found["what"])]
    return commands + WITH_EXTRAS.findall(text)


def test_no_text_installs_another_project() -> None:
    found = {name: of_another_project(text) for name, text in texts().items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_docs_install_what_there_is() -> None:
    """Nothing is published: pages install the checkout or a wheel that was made of it."""
    for name, text in texts().items():
        if name.endswith(".md"):
            for found in INSTALLED.finditer(text):
                named = re.findall(rf"(?<![-\w./]){DISTRIBUTION}\b", found["what"])
                assert not named, f"{name}: {found[0]}"


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("pip install tideline", True),
        ("pip install 'tideline[spark]'", True),
        ("uv tool install tideline==0.2.0", True),
        ("needs tideline[report] to run", True),
        ("pip install 'tideline-lakehouse[spark]'", False),
        ("pip install ./dist/tideline_lakehouse-0.1.0-py3-none-any.whl", False),
        ("pip install '.[spark]'", False),
        ("pip install duckdb puts it beside tideline", True),
    ],
)
def test_the_other_project_is_recognised(text: str, is_found: bool) -> None:
    assert bool(of_another_project(text)) is is_found


def test_messages_name_the_distribution_and_extras_that_there_are() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["name"] == DISTRIBUTION
    assert installation("spark") == f"pip install '{DISTRIBUTION}[spark]'"
    calls = {
        extra
        for text in texts().values()
        for extra in re.findall(r"\b(?:installation|with_extra)\(['\"](\w+)['\"][,)]", text)
    }
    assert {"spark", "report", "iceberg", "lance", "minio", "aws"} <= calls
    assert calls <= set(project["optional-dependencies"])
