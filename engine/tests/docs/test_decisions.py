"""Every decision is in the index once, under its own title, in the one format."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DECISIONS = Path(__file__).resolve().parents[3] / "docs" / "decisions"
PAGES = sorted(DECISIONS.glob("[0-9]*.md"))


def test_the_index_lists_every_decision_once() -> None:
    index = (DECISIONS / "README.md").read_text("utf-8")
    listed = re.findall(r"^- (\d+)\. \[(.+)\]\((\d{4}[\w.-]+)\)", index, re.MULTILINE)
    titles = {page.name: _title(page) for page in PAGES}
    assert {name: (number, title) for number, title, name in listed} == titles
    assert len(listed) == len(PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_decision_says_its_context_and_what_was_decided(page: Path) -> None:
    text = page.read_text("utf-8")
    assert "\n**Context.** " in text
    assert len(re.findall(r"^\*\*[A-Z]", text, re.MULTILINE)) >= 2
    assert not re.search(r"^##", text, re.MULTILINE)


def _title(page: Path) -> tuple[str, str]:
    found = re.match(r"# (\d+)\. (.+)\n", page.read_text("utf-8"))
    assert found, page
    return found[1], found[2]
