"""The site of the docs: its pages keep their links, and bring what these lead to."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tools.site import __main__ as site
from tools.site import stage as staging

ROOT = Path(__file__).resolve().parents[3]
PAGES = {
    "README.md": "[a](docs/a.md#part), [code](tools/x.py#L10), [all](examples/), [b](docs/),"
    " [c](gone.md)\n",
    "docs/README.md": "# Docs\n",
    "docs/a.md": "[up](../README.md)\n\n```\n[not](../tools/x.py#L3)\n```\n\n"
    "[site](https://example.org/x)\n",
    "tools/x.py": "x = 1\n",
    "tools/unlinked.py": "y = 1\n",
    "examples/one.yaml": "kind: One\n",
}


@pytest.fixture
def staged(tmp_path: Path) -> Path:
    repository = tmp_path / "repository"
    for name, text in PAGES.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text(text)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", "-C", str(repository), *command], check=True)
    (repository / "secret.md").write_text("not tracked")
    target = tmp_path / "source"
    staging.stage(repository, target)
    return target


def test_links_lead_to_what_the_site_has(staged: Path) -> None:
    assert (staged / "README.md").read_text() == (
        "[a](docs/a.md#part), [code](tools/x.py), [all](examples/README.md), [b](docs/README.md),"
        " [c](gone.md)\n"
    )
    assert (staged / "docs/a.md").read_text() == PAGES["docs/a.md"]


def test_the_site_has_what_is_linked_and_nothing_else(staged: Path) -> None:
    found = {path.relative_to(staged).as_posix() for path in staged.rglob("*") if path.is_file()}
    assert found == {
        "README.md", "docs/README.md", "docs/a.md", "tools/x.py", "examples/one.yaml",
        "examples/README.md",
    }  # fmt: skip
    assert "[one.yaml](one.yaml)" in (staged / "examples/README.md").read_text()


def test_every_page_of_the_menu_is_there_and_every_page_of_docs_is_in_the_menu() -> None:
    text = (ROOT / "tools/site/mkdocs.yml").read_text("utf-8")
    named = set(re.findall(r"[\w/-]+\.md", text.partition("\nnav:")[2]))
    assert [name for name in named if not (ROOT / name).is_file()] == []
    docs = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert {name for name in docs - named if not name.startswith("docs/decisions/")} == set()
    assert yaml.safe_load(text)["strict"] is True


def test_versions_are_ordered_by_number() -> None:
    names = ["0.10.0", "0.9.1", "1.0.0-rc.1", "1.0.0", "0.9.0"]
    assert sorted(names, key=site.version_order) == [
        "0.9.0", "0.9.1", "0.10.0", "1.0.0-rc.1", "1.0.0",
    ]  # fmt: skip


def test_a_site_lists_its_versions_newest_first(tmp_path: Path) -> None:
    mkdocs = tmp_path / "mkdocs"
    mkdocs.write_text('#!/bin/sh\nmkdir -p "$6" && echo page > "$6/index.html"\n')
    mkdocs.chmod(0o755)
    folder = tmp_path / "site"
    for version in ("0.9.0", "0.10.0"):
        site.build(mkdocs, folder, version)
    (folder / "html" / "assets").mkdir()
    site.build(mkdocs, folder, "0.8.0")
    listed = json.loads((folder / "html" / "versions.json").read_text())
    assert [(item["version"], item["aliases"]) for item in listed] == [
        ("0.10.0", ["latest"]),
        ("0.9.0", []),
        ("0.8.0", []),
    ]
    assert "url=0.10.0/index.html" in (folder / "html" / "index.html").read_text()
