"""How csv files are written, found from their beginnings: separator, header line, encoding."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tideline.errors import InvalidDataError

SEPARATORS = (",", ";", "\t", "|")
LATIN_1 = "ISO-8859-1"
_ROWS_LOOKED_AT = 200
_SAME_LENGTH_MIN = 0.8
_VALUE = re.compile(
    r"[+-]?[0-9][0-9.,]*([eE][+-]?[0-9]+)?|true|false"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}.*|[0-9]{1,2}[./][0-9]{1,2}[./][0-9]{2,4}.*",
    re.IGNORECASE,
)
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_WINDOWS = re.compile(rb"[\x80-\x9f]")


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """`encoding` is None for UTF-8."""

    sep: str = ","
    has_header: bool = True
    encoding: str | None = None
    quote: str = '"'

    def rows(self, text: str) -> list[list[str]]:
        """The rows of a text, without empty lines."""
        return [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=self.sep) if row]


def find_separator(beginnings: Sequence[str]) -> str:
    """The separator with which most rows have as many values as the first row of their file; a
    comma where there is one column only."""
    best, found = (0.0, 1), ","
    for sep in SEPARATORS:
        same, total, columns = 0, 0, 0
        for text in beginnings:
            rows = CsvDialect(sep).rows(text)[:_ROWS_LOOKED_AT]
            if rows and len(rows[0]) > 1:
                same += sum(len(row) == len(rows[0]) for row in rows)
                columns = max(columns, len(rows[0]))
            total += len(rows)
        share = same / total if total else 0.0
        if share >= _SAME_LENGTH_MIN and (share, columns) > best:
            best, found = (share, columns), sep
    return found


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names columns: no name is a number, a time or a flag, and none is a
    value of its own column."""
    if not rows:
        return True
    names = [cell.strip() for cell in rows[0]]
    given = [name for name in names if name]
    if not given or any(map(_VALUE.fullmatch, given)):
        return False
    return not any(
        name and len(row) > place and row[place].strip() == name
        for row in rows[1:]
        for place, name in enumerate(names)
    )


def find_encoding(contents: Mapping[str, bytes]) -> str | None:
    """How the bytes of the files are text: None for UTF-8, else the name of Spark's option.

    Raises InvalidDataError naming a file in an encoding that is not read, and where files differ.
    """
    foreign: dict[str, str] = {}
    ascii_only: set[str] = set()
    for path, content in contents.items():
        if content.startswith(_UTF_16):
            raise _unread(path, "it is UTF-16", "UTF-16")
        if content.isascii():
            ascii_only.add(path)
        elif not _is_utf8(content):
            if _WINDOWS.search(content):
                raise _unread(path, "it is not UTF-8, and seems to be windows-1252", "WINDOWS-1252")
            foreign[path] = LATIN_1
    if not foreign:
        return None
    others = sorted(contents.keys() - foreign.keys() - ascii_only)
    if others:
        path = next(iter(foreign))
        raise InvalidDataError(
            f"{path} is not UTF-8 and {others[0]} is: all files of a folder are read in one "
            f"encoding; write them in UTF-8, such as with iconv -f {LATIN_1} -t UTF-8"
        )
    return LATIN_1


def _is_utf8(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError as error:
        # What was read may end in the middle of a letter.
        return error.reason == "unexpected end of data" and error.end >= len(content)
    return True


def _unread(path: str, what: str, encoding: str) -> InvalidDataError:
    return InvalidDataError(
        f"{path}: {what}, which is not read: write it in UTF-8, such as with "
        f"iconv -f {encoding} -t UTF-8",
    )
