"""A certificate that this process shows to servers that demand one of their clients (mTLS)."""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tideline.errors import ConfigError
from tideline.secret_values import note_secrets
from tideline.storage.egress.client_files import CERTIFICATE, KEY, ClientFiles

_PRIVATE_KEY = re.compile(
    r"-----BEGIN ((?:[A-Z]+ )*)PRIVATE KEY-----.*?-----END \1PRIVATE KEY-----", re.S
)
_BEGINNING = "-----BEGIN CERTIFICATE-----"
_RENEW = "give it again, in PEM"


@dataclass(frozen=True, slots=True, repr=False)
class ClientCertificate:
    """A certificate, with those between it and its authority, and its key: texts in PEM. Never
    shown. `name` says in messages where it comes from."""

    certificate: str
    key: str
    name: str

    def __repr__(self) -> str:
        return f"ClientCertificate({self.name})"

    @classmethod
    def of_files(cls, files: ClientFiles) -> ClientCertificate:
        """Raises ConfigError."""
        texts = []
        named = ((CERTIFICATE, files.certificate), (KEY, files.key or files.certificate))
        for option, path in named:
            try:
                texts.append(Path(path).read_text("ascii"))
            except (OSError, UnicodeError) as error:
                why = getattr(error, "strerror", None) or "it is not PEM"
                raise ConfigError(f"cannot read {option}: {why}", path=path) from None
        return cls.of_texts(*texts, name=f"{CERTIFICATE} {files.certificate}")

    @classmethod
    def of_texts(cls, certificate: str, key: str, *, name: str) -> ClientCertificate:
        """Raises ConfigError for what is no certificate with its key."""
        found = _PRIVATE_KEY.search(key)
        if _BEGINNING not in certificate:
            raise ConfigError(f"{name}: there is no certificate in it: {_RENEW}")
        if found is None:
            raise ConfigError(f"{name}: there is no private key with it: {_RENEW}")
        if "ENCRYPTED" in found[0]:
            raise ConfigError(f"{name}: its key has a password: give one that has none")
        made = cls(certificate, found[0], name)
        made.context(None)
        return made

    def context(self, authorities: bytes | None) -> ssl.SSLContext:
        """TLS for connections that show it; `authorities` (PEM) are trusted besides the machine's.
        Raises ConfigError when the key is not that of the certificate."""
        note_secrets([self.key])
        context = ssl.create_default_context()
        if authorities is not None:
            context.load_verify_locations(cadata=authorities.decode())
        with _as_file(f"{self.key}\n{self.certificate}\n") as path:
            try:
                context.load_cert_chain(path)
            except ssl.SSLError as error:
                reason = (error.reason or "unreadable").lower().replace("_", " ")
                message = f"{self.name}: certificate and key do not go together ({reason})"
                raise ConfigError(f"{message}: {_RENEW}") from None
        context.set_alpn_protocols(["http/1.1"])
        return context


ClientFor = Callable[[str], ClientCertificate | None]
"""What is shown to the server of a URL. Raises ConfigError."""


class WatchedFiles:
    """The certificate in files as they are now: called before each connection."""

    def __init__(self, files: ClientFiles) -> None:
        """Raises ConfigError."""
        self._files = files
        self._state = self._now()
        self._last = ClientCertificate.of_files(files)

    def __call__(self) -> ClientCertificate:
        """The same value for as long as the files do not change. Raises ConfigError for files that
        are not whole."""
        state = self._now()
        if state != self._state:
            self._last, self._state = ClientCertificate.of_files(self._files), state
        return self._last

    def _now(self) -> tuple[tuple[int, int, int], ...]:
        """What differs once the files are others; empty while one is missing."""
        paths = (self._files.certificate, self._files.key or self._files.certificate)
        with suppress(OSError):
            found = [Path(path).stat() for path in paths]
            return tuple((status.st_ino, status.st_mtime_ns, status.st_size) for status in found)
        return ()


@contextmanager
def _as_file(text: str) -> Iterator[str]:
    """A file of this process alone, since OpenSSL reads keys from files. On Linux in memory."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").exists():
        number = os.memfd_create("tideline")
        with os.fdopen(number, "wb") as file:
            file.write(text.encode())
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        yield file.name
