"""The workflows of hosted CI run make targets and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tideline.testing.verify import PARTS
from tools.workflows import wrong_steps

ROOT = Path(__file__).resolve().parents[3]
WORKFLOWS = ROOT / ".github/workflows"
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def test_each_step_is_a_make_target() -> None:
    assert wrong_steps(WORKFLOWS, MAKEFILE) == []


@pytest.mark.parametrize(
    "command",
    ["pip install x", "make nothing-of-the-kind", "make lint && curl x", "make lint | cat"],
)
def test_a_step_that_is_something_else_is_found(tmp_path: Path, command: str) -> None:
    steps = [{"uses": "actions/checkout@v4"}, {"run": command}]
    (tmp_path / "ci.yaml").write_text(yaml.safe_dump({"jobs": {"job": {"steps": steps}}}))
    assert wrong_steps(tmp_path, MAKEFILE) == [f"ci.yaml: {command}"]


def test_nightly_runs_every_part_that_needs_no_fixtures() -> None:
    nightly = yaml.safe_load((WORKFLOWS / "nightly.yaml").read_text("utf-8"))
    parts = nightly["jobs"]["verify"]["strategy"]["matrix"]["part"]
    assert parts == [part.name for part in PARTS if part.name != "foreign"]


def test_the_pythons_that_are_tested_are_those_that_the_package_takes() -> None:
    ci = yaml.safe_load((WORKFLOWS / "ci.yaml").read_text("utf-8"))
    pythons = ci["jobs"]["test"]["strategy"]["matrix"]["python"]
    found = re.search(r'requires-python = ">=(\S+)"', (ROOT / "pyproject.toml").read_text("utf-8"))
    assert found is not None
    assert pythons[0] == found[1]


def test_nothing_that_is_secret_is_written_into_a_workflow() -> None:
    for path in WORKFLOWS.glob("*.yaml"):
        text = path.read_text("utf-8")
        assert not re.search(r"(?i)(password|token|secret): *(?!write)[^\s${]", text), path.name
