"""Secret values that this process knows, and their masking in everything that people read.

1. Code that reads a secret (a Secret of Kubernetes, a variable of the environment, the answer of an
   identity service) notes it here, before it is used.
2. Errors mask their texts when they are made (`tideline.errors`); logs, events, statuses and the
   output of commands mask theirs where they leave the process. A server that repeats a token in a
   refusal so repeats three asterisks.

A value is also recognised in Base64 (within a longer text that was encoded as well, such as
`user:password`), percent-encoded, and as JSON, Python, XML and HTML spell it. Of a value without
spaces that has at least `_CUT_LENGTH_MIN` characters the beginning is enough: messages are cut.
Of what is longer than any secret, and of more lines than any key has, the first part is known: one
Secret must not push those of others out.

Values of fewer than `LENGTH_MIN` characters are not masked: they are parts of ordinary words, and
would be found by trying anyway. A longer value is masked wherever it is, within words too.
"""

from __future__ import annotations

import json
import re
import threading
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from html import escape
from typing import Any
from urllib.parse import quote, quote_plus, unquote, urlsplit

LENGTH_MIN = 6
MASK = "***"
_CUT_LENGTH_MIN = 24
_PASSES_MAX = 8
_BEGINNING = 12
_LINE_LENGTH_MIN = 16
_LENGTH_MAX, _LINES_MAX = 32_768, 200
_VALUES_MAX = 10_000
_CHARACTERS_MAX = 16_000_000
"""Of all spellings. The values that were noted least recently are forgotten: temporary credentials
are renewed for as long as a process lives. Those that a server makes up are forgotten first: else
one server could have all others' forgotten."""
_SECRET_ENDINGS = ("KEY", "SECRET", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL",
                   "CREDENTIALS", "SIGNATURE")  # fmt: skip
_SECRET_WORDS = ("AUTH", "AUTHORIZATION", "PASS", "SAS", "JWT")
_SECRET_SOUNDS = ("key", "secret", "token", "password", "credential", "auth", "signature")
_NOT_SECRET = re.compile(
    r".*(FILE|PATH|DIR|URI|URL|ENDPOINT|ID|NAME|TYPE|SOCK|FIELD|FIELDS)$|ENABLED$|MS$"
)
_REST_OF_WORD = re.compile(r"[^\s\"'`<>\\,;()\[\]{}]*")
_SCHEMES = ("bearer", "basic", "token")
_HELD = re.compile(
    r"://[^/?#\s]*:[^/?#\s]*@|https?://[^/?#\s]*@"
    r"|[?&;](?:sig|signature|x-(?:amz|goog)-(?:signature|security-token)|accountkey"
    r"|sharedaccesssignature|password)=",
    re.IGNORECASE,
)
"""Users in addresses, signatures in the queries of presigned ones, connection strings."""


class _Known:
    """The spellings of values, found by their first `LENGTH_MIN` characters.

    Readers need no lock: each member is replaced, or added to, in one step.
    """

    def __init__(self) -> None:
        self.spellings: set[str] = set()
        self.beginnings: set[str] = set()
        self.lengths: dict[str, tuple[int, ...]] = {}
        """Lengths of the spellings that begin so, the longest first."""

    def add(self, spelling: str) -> None:
        self.spellings.add(spelling)
        if len(spelling) >= _CUT_LENGTH_MIN and not re.search(r"\s", spelling):
            self.beginnings.add(spelling[:_BEGINNING])
        head = spelling[:LENGTH_MIN]
        lengths = {*self.lengths.get(head, ()), len(spelling)}
        self.lengths[head] = tuple(sorted(lengths, reverse=True))

    def end_of_value(self, text: str, start: int) -> int:
        """Where the longest value ends that begins at `start`; `start` where there is none."""
        end = start
        for length in self.lengths[text[start : start + LENGTH_MIN]]:
            if text[start : start + length] in self.spellings:
                end = min(start + length, len(text))
                break
        if end - start < _BEGINNING and text[start : start + _BEGINNING] in self.beginnings:
            rest = _REST_OF_WORD.match(text, start)
            end = max(end, rest.end() if rest else start)
        return end


_lock = threading.Lock()
_values: OrderedDict[str, tuple[str, ...]] = OrderedDict()
"""Spellings by value, the least recently noted first."""
_passing: OrderedDict[str, None] = OrderedDict()
"""Those of the values that are forgotten first, likewise."""
_characters = 0
_known = _Known()


def note_secrets(values: Iterable[str | None], *, are_passing: bool = False) -> None:
    """Mask these values from now on; those that `are_passing`, as a server makes up as many as it
    likes, are forgotten before others."""
    noted = {part for value in values if value for part in _parts(value.strip())}
    with _lock:
        for value in noted:
            is_new = value not in _values
            if is_new:
                _note(value)
            _values.move_to_end(value)
            if are_passing and (is_new or value in _passing):
                _passing[value] = None
                _passing.move_to_end(value)
            else:
                _passing.pop(value, None)
        if len(_values) > _VALUES_MAX or _characters > _CHARACTERS_MAX:
            _forget_the_oldest()


def note_settings(settings: Mapping[str, Any]) -> None:
    """Mask the values of settings that are named like secrets, and passwords in addresses; of
    settings within settings too."""
    note_secrets(_secrets_in(settings))


def note_environment(environment: Mapping[str, str]) -> None:
    """The same for environment variables; some are JSON objects of settings."""
    note_settings(environment)
    for text in environment.values():
        if text.startswith("{"):
            try:
                content = json.loads(text)
            except (ValueError, RecursionError):
                continue
            note_settings(content)


def is_secret_name(name: str) -> bool:
    """Whether a variable or property of this name holds a secret."""
    parts = re.split(r"[^A-Z0-9]+", name.upper())
    return any(part.endswith(_SECRET_ENDINGS) or part in _SECRET_WORDS for part in parts) and (
        _NOT_SECRET.fullmatch(parts[-1]) is None
    )


def sounds_secret(name: str) -> bool:
    """Whether an option's name has a word of secrets anywhere: more than `is_secret_name`, for
    options that are refused."""
    return any(word in name.lower() for word in _SECRET_SOUNDS)


def holds_secret(text: str) -> bool:
    """Whether a text that was meant to be an address, or part of one, holds a secret by its form:
    one that is refused is not repeated then, since nobody has noted it."""
    return _HELD.search(text) is not None


def masked(text: str) -> str:
    """`text` with every known secret value replaced by three asterisks."""
    known = _known
    for _ in range(_PASSES_MAX):
        spans = _found_in(text, known)
        if not spans:
            return text
        parts: list[str] = []
        at = 0
        for start, end in spans:
            parts += (text[at:start], MASK)
            at = end
        # What is left may be a value once more.
        text = "".join((*parts, text[at:]))
    # Only a text that was made for it holds a value within a value within a value.
    return MASK


@contextmanager
def forgotten() -> Iterator[None]:
    """Within, nothing is known but what is noted there: for tests, whose secrets are made up."""
    global _values, _passing, _characters, _known
    before = _values, _passing, _characters, _known
    _values, _passing, _characters, _known = OrderedDict(), OrderedDict(), 0, _Known()
    try:
        yield
    finally:
        _values, _passing, _characters, _known = before


def masked_json(value: Any) -> Any:
    """A JSON value with its texts masked, names of members too; the structure stays as it is."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {masked(str(name)): masked_json(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [masked_json(item) for item in value]
    return value


def _found_in(text: str, known: _Known) -> list[tuple[int, int]]:
    """Where values are: beginnings and ends, in order; what overlaps is one."""
    lengths = known.lengths
    spans: list[tuple[int, int]] = []
    if not lengths:
        return []
    for at in range(len(text) - LENGTH_MIN + 1):
        if text[at : at + LENGTH_MIN] not in lengths:
            continue
        end = known.end_of_value(text, at)
        if end == at:
            continue
        if spans and at < spans[-1][1]:
            spans[-1] = spans[-1][0], max(end, spans[-1][1])
        else:
            spans.append((at, end))
    return spans


def _note(value: str) -> None:
    global _characters
    _values[value] = spellings = tuple(
        text for text in _spellings(value) if len(text) >= LENGTH_MIN
    )
    for spelling in spellings:
        _known.add(spelling)
        _characters += len(spelling)


def _forget_the_oldest() -> None:
    """Down to nine tenths of the limits, so that it is rarely done."""
    global _known, _characters
    while len(_values) > 1 and (
        len(_values) > _VALUES_MAX * 0.9 or _characters > _CHARACTERS_MAX * 0.9
    ):
        oldest = next(iter(_passing or _values))
        _passing.pop(oldest, None)
        spellings = _values.pop(oldest)
        _characters -= sum(map(len, spellings))
    known = _Known()
    for spellings in _values.values():
        for spelling in spellings:
            known.add(spelling)
    _known = known


def _parts(value: str) -> Iterator[str]:
    """A value, and the parts of it that are secrets too: the token of a header, lines of a key."""
    if len(value) < LENGTH_MIN:
        return
    value = value[:_LENGTH_MAX]
    yield value
    scheme, _, token = value.partition(" ")
    if scheme.lower() in _SCHEMES:
        yield from _parts(token.strip())
        if scheme.lower() == "basic":
            yield from _parts(_password_of_basic(token))
    lines = value.splitlines()[:_LINES_MAX]
    if len(lines) > 1:
        # Of a value with more lines than a key has the others' values would be forgotten.
        yield from (
            line for line in lines if len(line) >= _LINE_LENGTH_MIN and not line.startswith("-----")
        )


def _password_of_basic(token: str) -> str:
    try:
        return b64decode(token, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def _spellings(value: str) -> set[str]:
    in_json = json.dumps(value)[1:-1]
    texts = {value, in_json, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(in_json)[1:-1],
             repr(value)[1:-1], escape(value), escape(value, quote=False)}  # fmt: skip
    try:
        encoded = value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return texts
    quoted = {quote(encoded, safe=""), quote(encoded), quote_plus(encoded)}
    quoted |= {re.sub("%..", lambda found: found[0].lower(), spelling) for spelling in quoted}
    quoted |= {quote(spelling, safe="") for spelling in quoted}
    return texts | quoted | set(_in_base64(encoded))


def _in_base64(value: bytes) -> Iterator[str]:
    """What Base64 makes of the value, by how many bytes are before it, without the characters that
    its neighbours have a part in."""
    for encode in (b64encode, urlsafe_b64encode):
        whole = encode(value).decode()
        yield from (whole, whole.rstrip("="))
        for before in range(3):
            bits = 8 * before, 8 * (before + len(value))
            yield encode(bytes(before) + value).decode()[-(-bits[0] // 6) : bits[1] // 6]


def _secrets_in(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _secrets_in(value)
        elif isinstance(value, str):
            yield from _passwords_in(value)
            if is_secret_name(str(name)):
                yield value
                # An OAuth credential is `id:secret`.
                yield value.partition(":")[2]


def _passwords_in(text: str) -> Iterator[str]:
    if "://" not in text or "@" not in text:
        return
    try:
        password = urlsplit(text).password or ""
    except ValueError:
        return
    yield from (password, unquote(password))
