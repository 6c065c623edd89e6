"""The text form of `java.util.Properties`, read as Java reads it and written in one fixed form.

Reading: logical lines (a line ending in an odd number of backslashes continues on the next), `#`
and `!` comments, key and value parted by the first unescaped `=`, `:` or blank, `\\uXXXX` escapes,
ISO-8859-1 bytes. Writing: keys sorted, everything outside printable ASCII escaped.
Source: java.util.Properties.load and store.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from tideline.errors import CorruptTableError

_BLANK = " \t\f"
_NATURAL_LINE_END = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:\\.?|[^\\=: \t\f])*", re.DOTALL)
_LETTER_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {
    "\t": "\\t",
    "\n": "\\n",
    "\r": "\\r",
    "\f": "\\f",
    "\\": "\\\\",
    "=": "\\=",
    ":": "\\:",
    "#": "\\#",
    "!": "\\!",
}


def parse_properties(body: bytes) -> dict[str, str]:
    """Read the bytes of a properties file; of a repeated key the last value counts.

    Raises CorruptTableError for a malformed `\\u` escape.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(body.decode("latin-1")):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def format_properties(properties: Mapping[str, str], *, updated_at_ms: int) -> bytes:
    """Write properties: the `#Updated at` header, then the keys in sorted order.

    `updated_at_ms` is in milliseconds since the epoch.
    """
    moment = datetime.fromtimestamp(updated_at_ms / 1000, tz=UTC)
    stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    lines = [f"#Updated at {stamp}"]
    for key in sorted(properties):
        value = properties[key]
        blanks = len(value) - len(value.lstrip(" "))
        escaped = "\\ " * blanks + _escape(value[blanks:])
        lines.append(f"{_escape(key).replace(' ', chr(92) + ' ')}={escaped}")
    return ("\n".join(lines) + "\n").encode("ascii")


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    continues = False
    for natural in _NATURAL_LINE_END.split(text):
        line = natural.lstrip(_BLANK)
        if not continues and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        continues = backslashes % 2 == 1
        pending += line[:-1] if continues else line
        if not continues:
            yield pending
            pending = ""
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    key = _KEY.match(line)
    assert key is not None, "it may be empty"
    value = line[key.end() :].lstrip(_BLANK)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(_BLANK)
    return key[0], value


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            out.append(character)
            continue
        escape = text[position : position + 1]
        position += 1
        if escape == "u":
            out.append(_unit(text[position : position + 4]))
            position += 4
        else:
            out.append(_LETTER_ESCAPES.get(escape, escape))
    # Characters beyond the basic plane come as two escapes; join them.
    return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unit(digits: str) -> str:
    if re.fullmatch(r"[0-9A-Fa-f]{4}", digits) is None:
        raise CorruptTableError("malformed \\u escape in a properties file", value=digits)
    return chr(int(digits, 16))


def _escape(text: str) -> str:
    return "".join(_escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    if " " <= character <= "~":
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))


def with_changes(
    properties: Mapping[str, str], changes: Mapping[str, str | None]
) -> dict[str, str]:
    """The properties with other values; None takes one away."""
    whole = {**properties, **changes}
    return {key: value for key, value in whole.items() if value is not None}
