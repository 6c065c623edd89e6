"""A client's certificate as Java reads it: a key store, in Java's own format (JKS).

Java has no other place for one, and its tools import no key in PEM. The format protects keys by a
password alone that everybody knows here: the file's mode does.

    python -m tideline.storage.egress.java_key_store CERTIFICATE KEY STORE    what executors run
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import struct
import sys
from base64 import b64decode
from pathlib import Path

from tideline.errors import ConfigError, TidelineError
from tideline.storage.egress.client_certificate import ClientCertificate
from tideline.storage.egress.client_files import ClientFiles

WORD = "changeit"
"""No secret: Java wants a password on every key store."""
_PEM = re.compile(r"-----BEGIN ([A-Z ]+)-----(.*?)-----END \1-----", re.S)
_MAGIC, _VERSION, _PRIVATE_KEY = 0xFEEDFEED, 2, 1
_SALTED = b"Mighty Aphrodite"
_SEQUENCE, _INTEGER, _OCTETS, _CONTEXT_0 = 0x30, 0x02, 0x04, 0xA0
_NULL = b"\x05\x00"
_RSA = bytes.fromhex("06092a864886f70d010101")
_EC = bytes.fromhex("06072a8648ce3d0201")
_PROTECTED_BY_JAVA = bytes.fromhex("060a2b060104012a02110101")


def key_store_settings(path: Path) -> dict[str, str]:
    """The properties of Java that name a key store."""
    name = "javax.net.ssl.keyStore"
    return {name: str(path), f"{name}Type": "JKS", f"{name}Password": WORD}


def write_key_store(shown: ClientCertificate, path: Path) -> None:
    """A file of this user alone, which takes the place of another at once. Raises ConfigError for
    a key of a kind that is not known."""
    new = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    number = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(number, "wb") as file:
        file.write(key_store(shown))
    new.replace(path)


def key_store(shown: ClientCertificate) -> bytes:
    """The bytes of a key store with this one entry. Raises ConfigError."""
    chain = [der for kind, der in _blocks(shown.certificate) if kind == "CERTIFICATE"]
    body = struct.pack(">IIII", _MAGIC, _VERSION, 1, _PRIVATE_KEY) + _text("client")
    body += struct.pack(">Q", 0) + _counted(_protected(_pkcs8(shown)))
    body += struct.pack(">I", len(chain))
    body += b"".join(_text("X.509") + _counted(der) for der in chain)
    return body + hashlib.sha1(_password() + _SALTED + body).digest()


def _pkcs8(shown: ClientCertificate) -> bytes:
    """The key as PKCS 8 has it, with the name of its algorithm. Raises ConfigError."""
    kind, der = _blocks(shown.key)[0]
    if kind == "PRIVATE KEY":
        return der
    if kind == "RSA PRIVATE KEY":
        algorithm = _element(_SEQUENCE, _RSA + _NULL)
    elif kind == "EC PRIVATE KEY":
        algorithm = _element(_SEQUENCE, _EC + _curve(der, shown.name))
    else:
        raise ConfigError(f"{shown.name}: Java reads no {kind}: give the key as PKCS 8")
    return _element(_SEQUENCE, _element(_INTEGER, b"\0") + algorithm + _element(_OCTETS, der))


def _curve(der: bytes, name: str) -> bytes:
    """The curve that an EC key names: its element 0. Raises ConfigError."""
    position = _header(der, 0)[1]
    while position < len(der):
        length, start = _header(der, position)
        if der[position] == _CONTEXT_0:
            return der[start : start + length]
        position = start + length
    raise ConfigError(f"{name}: its key names no curve: give it as PKCS 8")


def _protected(key: bytes) -> bytes:
    salt = secrets.token_bytes(20)
    stream, last = b"", salt
    while len(stream) < len(key):
        last = hashlib.sha1(_password() + last).digest()
        stream += last
    hidden = bytes(ours ^ theirs for ours, theirs in zip(key, stream, strict=False))
    check = hashlib.sha1(_password() + key).digest()
    algorithm = _element(_SEQUENCE, _PROTECTED_BY_JAVA + _NULL)
    return _element(_SEQUENCE, algorithm + _element(_OCTETS, salt + hidden + check))


def _blocks(text: str) -> list[tuple[str, bytes]]:
    return [(found[1], b64decode(found[2])) for found in _PEM.finditer(text)]


def _header(der: bytes, position: int) -> tuple[int, int]:
    """The length of the element at a position, and where its contents start."""
    first = der[position + 1]
    if first < 0x80:
        return first, position + 2
    start = position + 2 + (first & 0x7F)
    return int.from_bytes(der[position + 2 : start]), start


def _element(tag: int, contents: bytes) -> bytes:
    length = len(contents)
    if length < 0x80:
        return bytes((tag, length)) + contents
    size = length.to_bytes((length.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(size))) + size + contents


def _password() -> bytes:
    return WORD.encode("utf-16-be")


def _text(word: str) -> bytes:
    return struct.pack(">H", len(word)) + word.encode()


def _counted(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def main(certificate: str, key: str, path: str) -> int:
    """Write a key store; the exit code."""
    try:
        write_key_store(ClientCertificate.of_files(ClientFiles(certificate, key)), Path(path))
    except TidelineError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
