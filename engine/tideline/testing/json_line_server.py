"""The answering half of a JSON-lines process: read a request, run its handler, write the reply.

`serve` answers one process, over standard input and output; `serve_socket` answers several at once,
over a socket, and ends with the last of them.

Standard library only: `hudi_peer_server` runs this inside a virtual environment that does not hold
Tideline. A request is one line `{"operation": name, "arguments": {...}}`; a reply is one line with
`result` and `seconds` (how long the handler worked), or `error`. Standard output belongs to the
replies alone: anything else that a handler or a child process prints, and the full traceback of
every failure, goes to standard error.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO

Handler = Callable[..., Any]
FIRST_CLIENT_S = 300.0


def claim_standard_output() -> TextIO:
    """Take standard output for replies; to be called before any child process is started."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def serve(handlers: Mapping[str, Handler], output: TextIO) -> None:
    """Say that it is ready, then answer requests until standard input ends or `stop` arrives."""
    with output as replies:
        _converse(handlers, sys.stdin, replies)


def serve_socket(handlers_of_a_client: Callable[[], Mapping[str, Handler]], path: str) -> None:
    """Answer all clients of the socket at `path`, each with handlers and a thread of its own.

    Returns when the last client is gone, or when none comes for `FIRST_CLIENT_S`. A client that
    connects too late is cut off before it reads that the server is ready.
    """
    clients = _Clients()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        arguments = (listener, handlers_of_a_client, clients)
        threading.Thread(target=_accept, args=arguments, daemon=True).start()
        clients.wait_for_the_last()


class _Clients:
    """How many are connected."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def change(self, by: int) -> None:
        with self._changed:
            self._count += by
            self._changed.notify_all()

    def wait_for_the_last(self) -> None:
        with self._changed:
            if self._changed.wait_for(lambda: self._count > 0, FIRST_CLIENT_S):
                self._changed.wait_for(lambda: self._count == 0)


def _accept(
    listener: socket.socket,
    handlers_of_a_client: Callable[[], Mapping[str, Handler]],
    clients: _Clients,
) -> None:
    def answer(connection: socket.socket) -> None:
        try:
            with connection, connection.makefile("rw", encoding="utf-8") as lines:
                _converse(handlers_of_a_client(), lines, lines)
        except OSError as failure:
            print(f"a client is gone: {failure}", file=sys.stderr, flush=True)
        finally:
            clients.change(-1)

    while True:
        connection, _ = listener.accept()
        clients.change(+1)
        threading.Thread(target=answer, args=[connection], daemon=True).start()


def _converse(handlers: Mapping[str, Handler], requests: Iterable[str], replies: TextIO) -> None:
    _send(replies, {"result": "ready", "seconds": 0.0})
    for line in requests:
        request = json.loads(line)
        if request["operation"] == "stop":
            return
        _send(replies, _answer(handlers, request))


def _answer(handlers: Mapping[str, Handler], request: Mapping[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    try:
        result = handlers[request["operation"]](**request["arguments"])
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as failure:  # a panic in Rust is not an Exception
        traceback.print_exc()
        return {"error": _account(failure)}
    return {"result": result, "seconds": time.monotonic() - started}


def _account(failure: BaseException) -> str:
    """The failure's message without Java's stack frames, but with every cause it names."""
    lines = str(failure).splitlines()
    kept = [line for line in lines if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    return "\n".join([f"{type(failure).__name__}: {' '.join(kept[:2])}", *kept[2:]])


def _send(replies: TextIO, reply: Mapping[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()
