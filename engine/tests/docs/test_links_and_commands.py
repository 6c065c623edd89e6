"""What README and docs link to is there, and the commands and options that they name exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from tideline.cli.main import tideline_command
from tideline.testing.followed_page import blocks_of

ROOT = Path(__file__).resolve().parents[3]
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def outside_blocks(page: str) -> str:
    return re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> frozenset[str]:
    """The names of a page's headings, as they are linked to."""
    headings = HEADING.findall(outside_blocks(page.read_text("utf-8")))
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return frozenset(heading.replace(" ", "-") for heading in kept)


def dead_links(page: Path) -> Iterator[str]:
    for target in LINK.findall(outside_blocks(page.read_text("utf-8"))):
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if re.match(r"[a-z]+:", target):
            continue
        if not file.exists() or (anchor and anchor not in anchors(file)):
            yield target


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page: Path) -> None:
    assert list(dead_links(page)) == []


def commands_in(page: Path) -> Iterator[list[str]]:
    """The words of each command of ours in the blocks of a page."""
    for block in blocks_of(page.read_text("utf-8")):
        for line in re.sub(r"\\\n", " ", block.code).splitlines():
            typed = re.match(r"\s*(?:\$ |\S*bin/)?tideline (.*)", line)
            if typed and block.language in ("", "bash", "console"):
                yield shlex.split(typed[1], comments=True)


def unknown_word(words: list[str]) -> str | None:
    """The first word that is neither a command nor an option of it."""
    command: click.Command = tideline_command
    context = click.Context(tideline_command)
    words = list(words)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        if found is None:
            return words[0]
        command, words = found, words[1:]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    given = [word.partition("=")[0] for word in words if re.match("-[-a-z]", word)]
    return next((entry for entry in given if entry not in known | {"--help"}), None)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_and_options_exist(page: Path) -> None:
    if page.name == "cli.md":
        pytest.skip("it is written from the commands themselves")
    unknown = {" ".join(words): unknown_word(words) for words in commands_in(page)}
    assert not {line: word for line, word in unknown.items() if word}


def test_commands_are_found_in_pages() -> None:
    assert sum(len(list(commands_in(page))) for page in PAGES) > 60
    assert unknown_word(["show", "uri", "--jsom"]) == "--jsom"
    assert unknown_word(["shwo", "uri"]) == "shwo"
