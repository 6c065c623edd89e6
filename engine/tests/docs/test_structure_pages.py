"""The picture of the architecture, and CONTRIBUTING's list of where a change goes, are those of the
tree."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("engine/tideline", "operator/tideline_operator")
CONTRACTS = {
    "engine": "layers",
    "hudi": "hudi-layers",
    "iceberg": "iceberg-layers",
    "operator": "operator-layers",
}
"""The boxes of the picture, and the contract that each shows."""
NOT_SHOWN = {"testing", "__main__", "plugin"}
CELL = re.compile(r"[^│├┤►]+")
WIDE = 45
"""Where the right one of two boxes begins, in characters."""


def layers_of(contract: str) -> list[set[str]]:
    """What stands at one height, from the top."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]
    (found,) = [item for item in settings["contracts"] if item["id"] == contract]
    rows = [set(re.split(r" *[|:] *", row)) - NOT_SHOWN for row in found["layers"]]
    return [row for row in rows if row]


def picture() -> dict[str, dict[str, int]]:
    """The names in each box, and the line of each."""
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    block = page.partition("## The picture")[2].partition("```\n")[2].partition("\n```")[0]
    found: dict[str, dict[str, int]] = {box: {} for box in CONTRACTS}
    part = "top"
    for number, line in enumerate(block.splitlines()):
        for cell in CELL.finditer(line):
            is_left = cell.start() < (WIDE if part == "formats" else WIDE // 2)
            names = [
                name for name in re.split(r"  +", cell[0].strip()) if re.fullmatch(r"\w+", name)
            ]
            if names == ["hudi"]:
                part = "formats"
            if part == "formats" and names in (["hudi"], ["iceberg"]):
                box = "engine"
            elif part == "formats":
                box = "hudi" if is_left else "iceberg"
            else:
                box = "operator" if part == "top" and is_left else "engine"
            for name in names:
                assert found[box].setdefault(name, number) == number, f"{name} stands twice"
        if "┴" in line and part == "formats":
            part = "bottom"
    return found


@pytest.mark.parametrize("box", CONTRACTS)
def test_the_picture_has_every_layer_in_its_order(box: str) -> None:
    layers, lines = layers_of(CONTRACTS[box]), picture()[box]
    missing = [name for row in layers for name in row if name not in lines]
    assert not missing
    heights = [[lines[name] for name in row] for row in layers]
    assert all(max(higher) < min(lower) for higher, lower in pairwise(heights)), layers


INSTANCES = {
    "a service of Hudi tables": (
        "partition_ttl",
        r"\bpartition_ttl\b|\bpartitionTtl\b|PartitionTtl",
    ),
    "a service of Iceberg tables": (
        "rewrite_manifests",
        r"services\.rewrite_manifests|\"rewrite_manifests\"|RewriteManifests|REWRITE_MANIFESTS",
    ),
    "a source of rows": ("kafka", r"sources\.kafka|\"kafka\"|\bKAFKA\b"),
    "a store": ("gcs", r"storage\.gcs|\bGCS\b|\"gs\"|\.gcs\b|gcs_endpoint"),
    "a partition of the metadata table": ("bloom_filters", r"\bBLOOM_FILTERS\b|\"bloom_filters\""),
    "a Hudi index type": ("global_bloom", r"\bGLOBAL_BLOOM\b"),
    "a log block type": ("parquet", r"BlockKind\.PARQUET_DATA\b|\bPARQUET_DATA = "),
    "how often a commit is tried again": ("retry", r"class RetryPolicy\b|\"commit\.retry\""),
    "a metric of the operator": ("tideline_", r"\"tideline_\w+_(total|seconds)\""),
    "a command": ("declare", r"\bdeclare_command\b"),
}
"""Of each change one that is there: its name, and what names it in code."""


def changes() -> dict[str, list[str]]:
    """CONTRIBUTING's table: each change with the paths that its row names."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    table = page.partition("## Where a change goes")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:a|how) .+?) \| (.+) \|$", table, re.MULTILINE)
    return {change: re.findall(r"`([\w./]*(?:/|\.py|\.md))`", places) for change, places in rows}


CHANGES = changes()


def located(name: str) -> Iterator[Path]:
    yield from (folder / name for folder in (ROOT, *(ROOT / package for package in PACKAGES)))


@cache
def sources() -> dict[str, str]:
    """The product without test support."""
    paths = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {
        path.relative_to(ROOT).as_posix(): path.read_text("utf-8")
        for path in paths
        if "testing" not in path.parts
    }


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_goes_to_places_that_exist(change: str) -> None:
    instance, _ = INSTANCES.get(change, ("NAME", ""))
    named = [name.replace("NAME", instance) for name in CHANGES[change]]
    assert named
    assert [name for name in named if not any(place.exists() for place in located(name))] == []


@pytest.mark.parametrize("change", INSTANCES)
def test_what_is_there_is_named_only_where_such_a_change_goes(change: str) -> None:
    instance, pattern = INSTANCES[change]
    places = [place.relative_to(ROOT).as_posix() for name in CHANGES[change]
              for place in located(name.replace("NAME", instance)) if place.exists()]  # fmt: skip
    naming = [path for path, text in sources().items() if re.search(pattern, text)]
    assert naming
    assert [path for path in naming if not path.startswith(tuple(places))] == []
