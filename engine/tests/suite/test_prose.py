"""The prose check of `make lint`: what it reads, what it finds and what it leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.prose import passages_of, words_in


def found_in(path: Path, text: str) -> list[tuple[int, str]]:
    """The lines and words that are found in a file with this text."""
    path.write_text(text)
    return [(hit.line, hit.word) for hit in words_in("x", passages_of(path))]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"""The table is written anew."""\n', [(1, "anew")]),
        ('"""A column, of\nwhich nothing is known."""\n', [(1, "of which")]),
        ("x = 1\n# The wait goes\n# on.\n", [(2, "goes # on")]),
        (
            'def f():\n    raise E(\n        f"a file {x} by "\n        "itself"\n    )\n',
            [(3, "by itself")],
        ),
        ('"""A lock. Who holds it waits."""\n', [(1, "Who")]),
        ("anew = goes_on\n", []),
        ('LINK = "docs/0058-compressed-anew.md"\n', []),
        ('"""Rows go on top of the file."""\n', []),
    ],
)
def test_comments_and_texts_of_python_are_read(
    tmp_path: Path, text: str, found: list[tuple[int, str]]
) -> None:
    assert found_in(tmp_path / "x.py", text) == found


def test_pages_are_read_but_for_targets_of_links(tmp_path: Path) -> None:
    page = "It begins\nanew ([58](58-by itself.md)).\n"
    assert found_in(tmp_path / "x.md", page) == [(2, "anew")]


def test_a_hit_says_where_it_is_and_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "x.md"
    path.write_text("one\none after the other\n")
    (hit,) = words_in("docs/x.md", passages_of(path))
    assert str(hit).startswith("docs/x.md:2: one after the other: write 'one after another'")
