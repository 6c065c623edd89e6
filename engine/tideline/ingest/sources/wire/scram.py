"""Signing in by SCRAM, for a client (RFC 5802): both sides show that they know the password.

A server that asks for very many iterations would keep the process busy: it is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field

_ITERATIONS_MAX = 200_000
_NO_BINDING = "n,,"


class ScramError(Exception):
    """The server does not follow the protocol, or does not know the password."""


@dataclass(slots=True)
class Scram:
    """One sign-in. `digest` is the name of the hash function."""

    digest: str
    username: str
    password: str
    nonce: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    _server_signature: bytes = b""

    def first(self) -> bytes:
        """The message that begins it."""
        return (_NO_BINDING + self._bare()).encode()

    def final(self, challenge: bytes) -> bytes:
        """The answer to the server's challenge. Raises ScramError."""
        given = _attributes(challenge)
        nonce, iterations = given.get("r", ""), given.get("i", "")
        if not nonce.startswith(self.nonce) or nonce == self.nonce:
            raise ScramError("the server's nonce does not continue the client's")
        if not iterations.isdecimal() or not 0 < int(iterations) <= _ITERATIONS_MAX:
            raise ScramError(f"the server asks for {iterations[:20]} iterations")
        salt = _decoded(given.get("s", ""))
        binding = base64.b64encode(_NO_BINDING.encode()).decode()
        without_proof = f"c={binding},r={nonce}"
        signed = ",".join((self._bare(), challenge.decode(), without_proof)).encode()
        password = self.password.encode()
        salted = hashlib.pbkdf2_hmac(self.digest, password, salt, int(iterations))
        client_key = self._hmac(salted, b"Client Key")
        signature = self._hmac(hashlib.new(self.digest, client_key).digest(), signed)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        self._server_signature = self._hmac(self._hmac(salted, b"Server Key"), signed)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def check(self, verdict: bytes) -> None:
        """The server's last message. Raises ScramError where it does not know the password."""
        shown = _decoded(_attributes(verdict).get("v", ""))
        if not hmac.compare_digest(shown, self._server_signature):
            raise ScramError("the server does not know the password either")

    def _bare(self) -> str:
        name = self.username.replace("=", "=3D").replace(",", "=2C")
        return f"n={name},r={self.nonce}"

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self.digest)


def _attributes(message: bytes) -> dict[str, str]:
    try:
        parts = message.decode().split(",")
    except UnicodeDecodeError:
        raise ScramError("the server's message is not text") from None
    return {name: value for name, _, value in (part.partition("=") for part in parts)}


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ScramError("the server's message is not as it must be") from None
