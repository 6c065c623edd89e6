"""A connection to one broker, over a socket that is given.

An answer is read within a limit of bytes, all answers within the bounds of the socket.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from tideline.errors import ConfigError, StorageUnavailableError
from tideline.ingest.sources.kafka.credentials import Credentials
from tideline.ingest.sources.kafka.declared import DeclaredKafka, Mechanism
from tideline.ingest.sources.kafka.wire.error_codes import raise_for_code
from tideline.ingest.sources.kafka.wire.fields import NO_TAGS, Fields, int16, int32, sized, text
from tideline.ingest.sources.kafka.wire.tokens import forget_token, token_for
from tideline.ingest.sources.source import Connect
from tideline.ingest.sources.wire.bounded_socket import (
    BoundedSocket,
    TooMuchError,
    load_certificate,
    words_of,
)
from tideline.ingest.sources.wire.field_reader import WireError
from tideline.ingest.sources.wire.scram import Scram, ScramError
from tideline.trust.foreign_words import quoted

_Answer = TypeVar("_Answer")
_ANSWER_BYTES_MAX = 16 * 1024 * 1024
_WORDS_MAX = 300
"""Of a broker's own."""
_CLIENT = "tideline"
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36
_DIGESTS = {Mechanism.SCRAM_SHA_256: "sha256", Mechanism.SCRAM_SHA_512: "sha512"}


@dataclass(slots=True)
class BrokerConnection:
    """Requests and their answers, one at a time, within the bounds of a socket."""

    source: DeclaredKafka
    socket: BoundedSocket
    _number: int = field(default=0, init=False)

    @contextmanager
    def open(
        self, host: str, credentials: Credentials, connect: Connect
    ) -> Iterator[BrokerConnection]:
        """Within, signed in as the source says; a token is asked for by `connect`. Raises
        WireError, ConfigError, StorageUnavailableError."""
        try:
            if self.source.protocol.is_encrypted:
                self._encrypt(host, credentials)
            if self.source.protocol.signs_in:
                self._sign_in(credentials, connect)
            yield self
        finally:
            self.socket.close()

    def ask(self, api: int, version: int, body: bytes, *, flexible: bool = False) -> Fields:
        """The fields of the answer. Raises WireError, StorageUnavailableError."""
        self._number += 1
        head = int16(api) + int16(version) + int32(self._number) + text(_CLIENT)
        message = sized(head + (NO_TAGS if flexible else b"") + body)
        self._io(partial(self.socket.send, message))
        size = Fields(self._io(partial(self.socket.receive, 4))).int32()
        if not 4 <= size <= _ANSWER_BYTES_MAX:
            raise WireError(f"an answer of {size:,} bytes")
        answer = Fields(self._io(partial(self.socket.receive, size)))
        if answer.int32() != self._number:
            raise WireError("the answer is to another request")
        if flexible:
            answer.skip_tags()
        return answer

    def _sign_in(self, credentials: Credentials, connect: Connect) -> None:
        mechanism = self.source.mechanism
        token = ""
        if mechanism is Mechanism.OAUTHBEARER:
            token = token_for(self.source, credentials, connect, self.socket.until_s)
        else:
            credentials.require_user(self.source.protocol.value)
        answer = self.ask(_SASL_HANDSHAKE, 1, text(mechanism.value))
        raise_for_code(self.source, answer.int16(), f"mechanism {mechanism.value}")
        if mechanism is Mechanism.PLAIN:
            self._authenticate(f"\0{credentials.username}\0{credentials.password}".encode())
            return
        if mechanism is Mechanism.OAUTHBEARER:
            self._show(token, credentials)
            return
        scram = Scram(_DIGESTS[mechanism], credentials.username, credentials.password)
        try:
            challenge = self._authenticate(scram.first())
            scram.check(self._authenticate(scram.final(challenge)))
        except ScramError as error:
            raise ConfigError(f"signing in fails: {error}", path=self.source.uri) from error

    def _show(self, token: str, credentials: Credentials) -> None:
        try:
            words = self._authenticate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())
            if words:
                # It says why it refuses, and the error follows.
                self._authenticate(b"\x01")
                raise ConfigError(
                    f"the brokers refuse this token: {quoted(words.decode('utf-8', 'replace'))}",
                    path=self.source.uri,
                )
        except ConfigError:
            forget_token(credentials)
            raise

    def _authenticate(self, message: bytes) -> bytes:
        answer = self.ask(_SASL_AUTHENTICATE, 0, sized(message))
        code, words = answer.int16(), answer.text()
        raise_for_code(self.source, code, words[:_WORDS_MAX])
        return answer.sized()

    def _encrypt(self, host: str, credentials: Credentials) -> None:
        try:
            context = ssl.create_default_context(cadata=credentials.authorities or None)
            if credentials.authorities_file:
                context.load_verify_locations(credentials.authorities_file)
            if credentials.certificate or credentials.key:
                load_certificate(context, credentials.certificate, credentials.key)
        except (ssl.SSLError, OSError, ValueError) as error:
            message = f"certificates or keys cannot be read: {words_of(error)}"
            raise ConfigError(message, path=self.source.uri) from error
        try:
            self.socket.encrypt(context, host)
        except (ssl.SSLError, ValueError) as error:
            message = f"the brokers refuse this client: TLS with {host}: {words_of(error)}"
            raise ConfigError(message, path=self.source.uri) from error
        except OSError as error:
            raise self._away(f"TLS with {host}: {words_of(error)}") from error

    def _io(self, action: Callable[[], _Answer]) -> _Answer:
        try:
            return action()
        except ssl.SSLError as error:
            # With TLS 1.3 a certificate of the client is refused here.
            message = f"the brokers refuse this client: {words_of(error)}"
            raise ConfigError(message, path=self.source.uri) from error
        except TooMuchError as error:
            raise WireError(str(error)) from error
        except OSError as error:
            raise self._away(words_of(error)) from error

    def _away(self, words: str) -> StorageUnavailableError:
        message = f"the topics cannot be looked at: {words}"
        return StorageUnavailableError(message, path=self.source.uri)
