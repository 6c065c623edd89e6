"""Finding a snippet of code by its tokens: blanks, line breaks, comments and commas before a
closing bracket do not count, so a formatter that wraps it in another way leaves it where it was.

A snippet that is a part of one token, such as words of a text, is found by its letters.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass

_BLANK = {
    *(tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.COMMENT, tokenize.ENDMARKER, tokenize.ENCODING),
}
# Within brackets the tokenizer takes any indentation; a snippet may close more than it opens.
_OPEN = "(" * 16


@dataclass(frozen=True, slots=True)
class Span:
    """Where a snippet begins and ends in a text, and how far its first line is indented."""

    start: int
    end: int
    indent: int


def spans(text: str, snippet: str) -> list[Span]:
    """Where `snippet` stands in the Python source `text`."""
    wanted = [token.string for token in _tokens(_OPEN + snippet)[len(_OPEN) :]]
    ends_with_comma = wanted[-1:] == [","]
    if ends_with_comma:
        wanted.pop()
    found = _tokens(text)
    strings = [token.string for token in found]
    starts = _line_starts(text)
    result = []
    for at in range(len(strings) - len(wanted) + 1):
        if wanted and strings[at : at + len(wanted)] == wanted:
            first, last = found[at], found[at + len(wanted) - 1]
            end = starts[last.end[0] - 1] + last.end[1]
            if ends_with_comma and (comma := re.compile(r"\s*,").match(text, end)):
                end = comma.end()
            start = starts[first.start[0] - 1] + first.start[1]
            indent = len(first.line) - len(first.line.lstrip())
            result.append(Span(start, end, indent))
    return result or _by_letters(text, snippet)


def replaced(text: str, span: Span, old: str, new: str) -> str:
    """`text` with `new` for the span; later lines are moved as far as the first was."""
    indent_then = len(old) - len(old.lstrip(" "))
    shift = span.indent - indent_then if indent_then else 0
    first, *later = new.strip().split("\n")
    return (
        text[: span.start]
        + "\n".join((first, *(_moved(x, shift) for x in later)))
        + text[span.end :]
    )


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    """Those that count; of an open bracket's text those before its end."""
    found: list[tokenize.TokenInfo] = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in _BLANK:
                continue
            if token.string in (")", "]", "}") and found and found[-1].string == ",":
                found.pop()
            found.append(token)
    except tokenize.TokenError:
        # The text ends within a bracket.
        return found
    return found


def _by_letters(text: str, snippet: str) -> list[Span]:
    return [Span(at.start(), at.end(), 0) for at in re.finditer(re.escape(snippet), text)]


def _line_starts(text: str) -> list[int]:
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _moved(line: str, by: int) -> str:
    if by >= 0 or not line.strip():
        return " " * by + line if line.strip() else line
    return line[min(-by, len(line) - len(line.lstrip())) :]
