"""Decompressing and parsing what others wrote, within limits: the one place where it is done.

- `decompress_bounded` stops at the limit of `read_limits`, regardless of what the stored form
  announces.
- `parse_json` counts values and levels before it makes an object of them.
- `faults_named` turns any error of a parser into one CorruptTableError that names the path.

Numbers of bytes that a format announces are never taken as sizes to allocate.
"""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from io import BytesIO
from itertools import accumulate
from typing import Any, ParamSpec, TypeVar

from tideline.bounded import snappy
from tideline.bounded.read_limits import (
    INTEGER_BITS_MAX,
    JSON_DEPTH_MAX,
    admit,
    read_limits,
    too_large,
    too_many_values,
)
from tideline.errors import CorruptTableError, UnsupportedTableError

P = ParamSpec("P")
R = TypeVar("R")

PARSER_FAULTS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    NotImplementedError,
    ArithmeticError,
    AssertionError,
    EOFError,
    RecursionError,
    StopIteration,
    struct.error,
    zlib.error,
    lzma.LZMAError,
)
"""What broken bytes lead plain Python code, and the libraries below it, to raise."""

_CHECKSUM_BYTES = 4
_CHUNK_BYTES = 256
"""Of Zstandard at a time: four bytes of it become up to 128 KiB."""
_XZ_BYTES_MAX = 80 * 1024 * 1024
"""The dictionary of the highest level and a little more."""
_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_LONG_NUMBER = re.compile(rb"[0-9]{19}")
_TO_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NOT_STRUCTURAL = bytes(set(range(256)) - set(b'[]{},"\\'))
_COLLAPSES = 24


@contextmanager
def faults_named(
    message: str, *, path: object = None, also: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Within, any error from broken input is a CorruptTableError naming `path`.

    `also` are the errors of a library. Tideline's pass, and get the path where they lack one.
    """
    caught: tuple[type[Exception], ...] = (*PARSER_FAULTS, *also)
    try:
        yield
    except (CorruptTableError, UnsupportedTableError) as error:
        error.path = path if error.path is None else error.path
        raise
    except caught as error:
        raise CorruptTableError(message, path=path, value=shortened(error)) from error


def parser(message: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """For functions that read what others wrote: `faults_named` around every call, with the
    argument `path` where it is given by name."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def parse(*args: P.args, **named: P.kwargs) -> R:
            with faults_named(message, path=named.get("path")):
                return function(*args, **named)

        return parse

    return decorated


def shortened(error: object) -> str:
    """An error in one line that a log can take: input may be quoted in it at any length."""
    text = error if isinstance(error, str) else repr(error)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


_SHOWN_CHARACTERS = 300


def decompress_bounded(codec: str, body: bytes, *, path: object = None) -> bytes:
    """The decompressed bytes of an Avro block (`avro.codec`) or, for `gzip`, of a gzip file.

    Raises UnsupportedTableError when they exceed the limit, or for a codec that is not known or not
    installed, and CorruptTableError when they are broken or cut short; both name `path`.
    """
    decompress = _CODECS.get(codec)
    if decompress is None:
        raise UnsupportedTableError("compressed with an unknown codec", path=path, value=codec)
    limit_bytes = read_limits().object_bytes_max
    with faults_named(f"{codec} data is truncated or broken", path=path):
        content = decompress(body, limit_bytes)
    if content is None or len(content) > limit_bytes:
        what = f"what {len(body):,} bytes decompress to ({codec})"
        raise too_large(what, limit_bytes, path=path)
    admit(len(content), path=path)
    return content


def parse_json(body: bytes | str, *, path: object = None, what: str = "JSON") -> Any:
    """A JSON document as Python values.

    Raises CorruptTableError naming `path` when it is none, is nested more than `JSON_DEPTH_MAX`
    levels deep, holds a whole number beyond 64 bits or half a character; UnsupportedTableError when
    it exceeds a limit.
    """
    encoded = body if isinstance(body, bytes) else body.encode("utf-8", "surrogatepass")
    admit(len(encoded), path=path)
    _check_structure(encoded, path, what)
    parse_int = _integer if _LONG_NUMBER.search(encoded) else None
    with faults_named(f"{what} is truncated or cannot be read", path=path):
        # Given bytes, json would guess at UTF-16, whose structure was not what was counted.
        text = body.decode("utf-8-sig") if isinstance(body, bytes) else body
        document = json.loads(text, parse_int=parse_int)
        if _SURROGATE.search(encoded):
            # Half a character cannot be written again, nor named in a message.
            json.dumps(document, ensure_ascii=False).encode()
        return document


def _check_structure(body: bytes, path: object, what: str) -> None:
    """Counts values and levels without parsing. Strings are cut out only where it matters."""
    limit = read_limits().values_max
    opened = body.count(b"[") + body.count(b"{")
    if opened + body.count(b",") <= limit and opened <= JSON_DEPTH_MAX:
        return
    structure = body.translate(None, _NOT_STRUCTURAL)
    structure = b"".join(_ESCAPE.sub(b"", structure).split(b'"')[::2])
    values = len(structure) - structure.count(b"]") - structure.count(b"}")
    if values > limit:
        raise too_many_values(values, limit, path=path)
    if _levels(structure) > JSON_DEPTH_MAX:
        raise CorruptTableError(
            f"{what} is nested more than {JSON_DEPTH_MAX} levels deep", path=path
        )


def _levels(structure: bytes) -> int:
    brackets = structure.translate(_TO_BRACKETS, b",")
    taken = 0
    while taken < _COLLAPSES and b"[]" in brackets:
        brackets = brackets.replace(b"[]", b"")
        taken += 1
    steps = (1 if bracket == _OPENING else -1 for bracket in brackets)
    return taken + max(accumulate(steps), default=0)


_OPENING = ord("[")


def _integer(digits: str) -> int:
    number = int(digits)
    if number.bit_length() > INTEGER_BITS_MAX:
        raise ValueError(f"a whole number of {len(digits)} digits")
    return number


def _gunzip(body: bytes, limit_bytes: int) -> bytes:
    """All members of a gzip file, as a concatenation of them is one too."""
    if not body:
        raise EOFError("it is empty")
    # Nearly all have one member, which takes half the time so.
    with suppress(zlib.error):
        member = zlib.decompressobj(_GZIP_BITS)
        content = member.decompress(body, limit_bytes + 1)
        if len(content) > limit_bytes or (member.eof and not member.unused_data):
            return content
    try:
        with gzip.GzipFile(fileobj=BytesIO(body)) as stream:
            return stream.read(limit_bytes + 1)
    except OSError as error:
        raise ValueError(str(error)) from error


_GZIP_BITS = 16 + zlib.MAX_WBITS


def _inflated(body: bytes, limit_bytes: int) -> bytes:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    content = stream.decompress(body, limit_bytes + 1)
    if not stream.eof and len(content) <= limit_bytes:
        raise EOFError("the stream has no end")
    return content


def _unsnapped(body: bytes, limit_bytes: int) -> bytes | None:
    """Avro puts a checksum of the content behind a Snappy block. None beyond the limit."""
    block = body[:-_CHECKSUM_BYTES]
    announced, _ = snappy.decompressed_bytes(block)
    if announced > limit_bytes:
        return None
    content = snappy.decompress(block)
    if zlib.crc32(content) != int.from_bytes(body[-_CHECKSUM_BYTES:], "big"):
        raise ValueError("the checksum is wrong")
    return content


def _zstandard(body: bytes, limit_bytes: int) -> bytes:
    try:
        import zstandard  # not in the base install, and needed by few tables
    except ImportError as error:
        message = "reading Zstandard needs the Python package zstandard: install it"
        raise UnsupportedTableError(message) from error
    stream = zstandard.ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    size_bytes = 0
    try:
        for start in range(0, len(body), _CHUNK_BYTES):
            parts.append(stream.decompress(body[start : start + _CHUNK_BYTES]))
            size_bytes += len(parts[-1])
            if size_bytes > limit_bytes or stream.eof:
                break
    except zstandard.ZstdError as error:
        raise ValueError(str(error)) from error
    if size_bytes <= limit_bytes and not stream.eof:
        raise EOFError("the frame has no end")
    return b"".join(parts)


def _bunzipped(body: bytes, limit_bytes: int) -> bytes:
    try:
        stream = bz2.BZ2Decompressor()
        content = stream.decompress(body, limit_bytes + 1)
    except OSError as error:
        raise ValueError(str(error)) from error
    if not stream.eof and len(content) <= limit_bytes:
        raise EOFError("the stream has no end")
    return content


def _unxzed(body: bytes, limit_bytes: int) -> bytes:
    stream = lzma.LZMADecompressor(memlimit=_XZ_BYTES_MAX)
    content = stream.decompress(body, limit_bytes + 1)
    if not stream.eof and len(content) <= limit_bytes:
        raise EOFError("the stream has no end")
    return content


def _stored(body: bytes, _: int) -> bytes:
    return body


_CODECS: Mapping[str, Callable[[bytes, int], bytes | None]] = {
    "null": _stored,
    "gzip": _gunzip,
    "deflate": _inflated,
    "snappy": _unsnapped,
    "zstandard": _zstandard,
    "bzip2": _bunzipped,
    "xz": _unxzed,
}
