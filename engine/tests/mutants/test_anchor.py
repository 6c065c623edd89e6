"""A fault stays where it is when its code is only wrapped in another way."""

from __future__ import annotations

import pytest

from tideline.testing.mutants.anchor import replaced, spans

SOURCE = """\
def read(path, limit):
    if is_known(path) and limit > 0:
        found = open(
            path,
            limit=limit,  # the least
        )
        return found
    return None
"""


def planted(old: str, new: str) -> str:
    (span,) = spans(SOURCE, old)
    return replaced(SOURCE, span, old, new)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("limit > 0", "limit >= 0", "    if is_known(path) and limit >= 0:"),
        ("open(path, limit=limit)", "open(path)", "        found = open(path)"),
        ("    if is_known(path) and limit > 0:\n", "    if True:\n", "    if True:"),
        ("found\n    return None", "found\n    return 1", "    return 1"),
    ],
)
def test_a_snippet_is_found_by_its_tokens(old: str, new: str, line: str) -> None:
    changed = planted(old, new)
    assert line in changed.splitlines()
    compile(changed, "read", "exec")


def test_an_argument_goes_with_its_comma() -> None:
    compile(planted("limit=limit,\n", ""), "read", "exec")
    assert "limit=limit" not in planted("limit=limit,\n", "")


def test_later_lines_move_with_the_first() -> None:
    old = "    found = open(path, limit=limit)\n    return found\n"
    assert "        found = 1\n        return 2\n" in planted(old, "    found = 1\n    return 2\n")


def test_words_within_a_text_are_found_by_their_letters() -> None:
    text = 'message = "nothing is there"\n'
    (span,) = spans(text, "is there")
    assert replaced(text, span, "is there", "is here") == 'message = "nothing is here"\n'


def test_a_snippet_that_stands_twice_or_nowhere_is_told() -> None:
    assert len(spans(SOURCE, "path")) == 3
    assert spans(SOURCE, "nowhere") == []
