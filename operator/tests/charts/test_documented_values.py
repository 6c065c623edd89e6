"""docs/install.md names every value of the chart, and every image that its pages take."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
INSTALL = (ROOT / "docs" / "install.md").read_text("utf-8")


def test_every_value_is_named() -> None:
    values = yaml.safe_load((ROOT / "charts" / "tideline" / "values.yaml").read_text("utf-8"))
    named = set(re.findall(r"`([A-Za-z.]+)`", INSTALL))
    groups = ("limits", "reader", "egress", "ambientIdentity", "engine")
    wanted = {
        f"{name}.{key}" if name in groups else name
        for name, value in values.items()
        for key in (value if name in groups else [""])
    }
    assert wanted - named == set()


def test_the_images_of_the_examples_are_built() -> None:
    examples = (ROOT / "examples" / "kubernetes").glob("*.yaml")
    used = {
        name
        for example in examples
        for name in re.findall(r"^\s*image: (tideline-[a-z]+):", example.read_text("utf-8"), re.M)
    }
    assert "tideline-minio" in used
    built = re.search(r"for name in ([a-z ]+); do", INSTALL)
    assert built is not None
    assert {f"tideline-{name}" for name in built[1].split()} >= used
