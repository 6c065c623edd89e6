"""A reader that is not to be trusted: in place of the supervisor and of a reading process it sends
what a test tells it to."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from tideline_operator.reading.codec import from_bytes, to_bytes
from tideline_operator.reading.frames import Channel, ClosedError, FrameError, FrameKind
from tideline_operator.reading.supervisor import Open

Behaviour = Callable[[Channel, socket.socket], None]
"""What it does once it has the call: a channel, and the socket below it."""


class HostileReader:
    """Listens at `path` within `with`. `asked` are the frames that a supervisor would get,
    `opened` what it is asked to open."""

    def __init__(self, folder: Path, behaviour: Behaviour) -> None:
        self.path = folder / "hostile.sock"
        self.asked: list[FrameKind] = []
        self.opened: list[Open] = []
        self.answers: list[bytes] = []
        self._behaviour = behaviour
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def __enter__(self) -> Self:
        self._listener.bind(str(self.path))
        self._listener.listen(16)
        threading.Thread(target=self._run, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        channel = Channel(connection)
        with connection, suppress(ClosedError, FrameError, OSError):
            kind, body = channel.receive(4096)
            self.asked.append(kind)
            if kind is not FrameKind.OPEN:
                channel.send(FrameKind.ANSWER, to_bytes(str, "it was hostile"))
                return
            self.opened.append(from_bytes(Open, body))
            channel.send(FrameKind.STARTED, to_bytes(str, "7"))
            channel.send(FrameKind.HELLO)
            channel.receive(64 * 1024 * 1024)
            self._behaviour(channel, connection)

    def ask(self, channel: Channel, kind: FrameKind, body: bytes) -> bytes:
        """Ask the controller something; its answer is kept in `answers`, too."""
        channel.send(kind, body)
        _, answer = channel.receive(4096)
        self.answers.append(answer)
        return answer
