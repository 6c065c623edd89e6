"""Words that this project's prose does not use, and what to write instead.

    python -m tools.prose

Read are the comments, docstrings and texts of all Python files and every Markdown page that git
tracks; `make lint` fails while something is found. A phrase is found across line breaks. Names of
files in a text, targets of links and the CHANGELOG's history are left alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

UNREAD = {
    "CHANGELOG.md": "what was released reads as it was released",
    "tools/prose.py": "it holds the words",
    "engine/tests/suite/test_prose.py": "it holds examples of them",
}
"""Files that are not read, and why."""


@dataclass(frozen=True)
class Word:
    """A word or phrase, as a regular expression, and what stands for it."""

    pattern: str
    instead: str

    def compiled(self) -> re.Pattern[str]:
        """The pattern as whole words, with any white space where it has a space."""
        spaced = self.pattern.replace(" ", r"(?:\s|#)+")
        return re.compile(rf"(?<![\w/`-])(?:{spaced})(?![\w/`-])", re.IGNORECASE)


WORDS = (
    Word("anew", "'again', or a verb with 're-': rewrite, rebuild, recompress"),
    Word("go(es)? on(?! (top|branches))", "'continues', 'runs' or 'resumes'"),
    Word("(went|gone|going) on(?! top)", "'continued', 'ran' or 'resumed'"),
    Word("by itself", "'on its own', 'alone' or 'automatically'"),
    Word("of which", "a sentence of its own, or 'whose', 'where' or 'with'"),
    Word("one after the other", "'one after another', 'in turn' or 'one at a time'"),
    Word("on and on", "'without end'"),
    Word("as at first", "'as before'"),
    Word("judge(d|s|ments?)?", "'check', 'classify' or 'rule'"),
    Word("dossiers?", "'adoption report'"),
    Word("(wishes|wished|believes|thinks)", "what the code does: code has no mind"),
    Word(
        "(module|class|function|method|code|package) (knows|asks|wants|decides|remembers|forgets)",
        "what the code does: code has no mind",
    ),
    Word(r"(?<!##\s)(?<=[.:;#]\s)who", "a noun: 'the holder of the lock', 'a process that'"),
    Word("whoever", "a noun: 'the process that', 'every reader'"),
    Word("(for|as) who", "a noun: 'the holder of the lock', 'a process that'"),
)


@dataclass(frozen=True)
class Found:
    """A word of the list in a file."""

    path: str
    line: int
    word: str
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.word}: write {self.instead} instead"


@dataclass(frozen=True)
class Passage:
    """Text that is read in one go, and the line on which it begins."""

    line: int
    text: str


def words_in(path: str, passages: Iterator[Passage]) -> Iterator[Found]:
    """What of the list is in the passages of a file."""
    for passage in passages:
        for pattern, instead in _COMPILED:
            for hit in pattern.finditer(passage.text):
                line = passage.line + passage.text.count("\n", 0, hit.start())
                yield Found(path, line, " ".join(hit[0].split()), instead)


def passages_of(path: Path) -> Iterator[Passage]:
    """The prose of a file: all of a Markdown page; of Python its comments and texts."""
    if path.suffix == ".md":
        yield Passage(1, _LINK_TARGET.sub("](", path.read_text()))
        return
    with path.open("rb") as source:
        yield from _python_passages(_whole_texts(tokenize.tokenize(source.readline)))


def main() -> int:
    """Print what is found; 1 where there is something."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md"], capture_output=True, text=True, check=True
    )
    found = [
        hit
        for name in listed.stdout.splitlines()
        if name not in UNREAD and Path(name).is_file()
        for hit in words_in(name, passages_of(Path(name)))
    ]
    for hit in found:
        print(hit)
    return 1 if found else 0


_COMPILED = [(word.compiled(), word.instead) for word in WORDS]
_LINK_TARGET = re.compile(r"\]\([^)\s]*")
_BETWEEN = (tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def _whole_texts(tokens: Iterator[tokenize.TokenInfo]) -> Iterator[tokenize.TokenInfo]:
    """The tokens, formatted texts as one: from Python 3.12 on they come in parts, their expressions
    among them, for which `{}` stands."""
    start, depth, parts = (0, 0), 0, list[str]()
    for token in tokens:
        name = tokenize.tok_name[token.type]
        depth += (name == "FSTRING_START") - (name == "FSTRING_END")
        if name == "FSTRING_START" and depth == 1:
            start, parts = token.start, []
        elif name == "FSTRING_END" and depth == 0:
            text = '"' + "".join(parts) + '"'
            yield tokenize.TokenInfo(tokenize.STRING, text, start, token.end, token.line)
        elif depth == 0:
            yield token
        elif name == "FSTRING_MIDDLE" and depth == 1:
            parts.append(token.string)
        elif parts[-1:] != ["{}"]:
            parts.append("{}")


def _python_passages(tokens: Iterator[tokenize.TokenInfo]) -> Iterator[Passage]:
    """Comments and texts; those on adjacent lines are one, as a sentence runs across them."""
    kind, line, end, text = 0, 0, 0, ""
    for token in tokens:
        if token.type in _BETWEEN:
            continue
        if text and token.type == kind and token.start[0] - end <= 1:
            text += "\n" * (token.start[0] - end) + _bare(token)
        else:
            if text:
                yield Passage(line, text)
            text = _bare(token) if token.type in (tokenize.COMMENT, tokenize.STRING) else ""
            line = token.start[0]
        kind, end = token.type, token.end[0]


def _bare(token: tokenize.TokenInfo) -> str:
    """The token without the quotes, so that a phrase is found across two parts of a text."""
    return token.string if token.type == tokenize.COMMENT else _QUOTES.sub("", token.string)


_QUOTES = re.compile(r"^[A-Za-z]{0,2}(\"\"\"|'''|\"|')|(\"\"\"|'''|\"|')$")


if __name__ == "__main__":
    sys.exit(main())
