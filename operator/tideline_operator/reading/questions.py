"""What a reading process may ask during a call, and the texts that it sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tideline.secret_values import masked
from tideline.storage.remote.identity import IdentityError
from tideline.storage.s3.web_identity import WebIdentity
from tideline_operator.reading.access import Access
from tideline_operator.reading.calls import CATALOG_GATE, SOURCE_GATE, STORE_GATE
from tideline_operator.reading.codec import from_bytes, to_bytes
from tideline_operator.reading.frames import FrameError, FrameKind

QUESTION_BYTES_MAX = 64 * 1024
_TOKENS_MAX = 16
"""That one call asks for; each is a request to the API server."""
_SERVERS_MAX = 64
_SERVER_CHARACTERS_MAX = 512
_PROBLEM_CHARACTERS_MAX = 500
_MESSAGE_CHARACTERS_MAX = 2_000


@dataclass(slots=True)
class Questions:
    """What a reading process may ask during one call, and the answers."""

    access: Access
    servers: set[tuple[str, str]] = field(default_factory=set)
    tokens: int = 0

    def answer(self, kind: FrameKind, body: bytes) -> bytes | None:
        """The answer; None where none is expected. Raises FrameError for what is no question,
        CodecError, and what stands against writing."""
        match kind:
            case FrameKind.REFUSAL:
                name, server, writes = from_bytes(tuple[str, str, bool], body)
                gate = self._gate(name, server)
                return to_bytes(str | None, gate.refusal(server, writes=writes))
            case FrameKind.NOTE:
                name, server, problem = from_bytes(tuple[str, str, str | None], body)
                if problem is not None:
                    problem = shown(problem)[:_PROBLEM_CHARACTERS_MAX]
                self._gate(name, server).note(server, problem)
                return None
            case FrameKind.MAY_WRITE:
                self.access.may_write()
                return b""
            case FrameKind.TOKEN:
                return to_bytes(tuple[bool, str], self._token())
            case _:
                raise FrameError(f"a frame {kind.name} is no question")

    def _gate(self, name: str, server: str) -> Any:
        """The gate of a server: there are so many of them for one table."""
        self.servers.add((name, server))
        if len(self.servers) > _SERVERS_MAX or len(server) > _SERVER_CHARACTERS_MAX:
            raise FrameError("it asks about too many servers")
        connection = self.access.connection
        if name == STORE_GATE and connection is not None and connection.gate is not None:
            return connection.gate
        if name == CATALOG_GATE and self.access.catalog_gate is not None:
            if server != self.access.catalog_server:
                raise FrameError("it asks about another catalog")
            return self.access.catalog_gate
        if name == SOURCE_GATE and self.access.sources.gate is not None:
            if server not in self.access.sources.servers:
                raise FrameError("it asks about another source")
            return self.access.sources.gate
        raise FrameError(f"there is no gate {name!r:.40}")

    def _token(self) -> tuple[bool, str]:
        connection = self.access.connection
        if connection is None or not isinstance(connection.credentials, WebIdentity):
            raise FrameError("it asks for a token, and has no web identity")
        self.tokens += 1
        if self.tokens > _TOKENS_MAX:
            raise FrameError("it asks for too many tokens")
        try:
            return True, connection.credentials.token()
        except (IdentityError, OSError) as error:
            return False, masked(str(error))


def shown(text: str) -> str:
    """A text of a process as people get it. Cut before it is masked, which takes time for each
    character; a value that is cut is known by its beginning."""
    return masked(text[: 2 * _MESSAGE_CHARACTERS_MAX])[:_MESSAGE_CHARACTERS_MAX]
