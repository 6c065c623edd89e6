"""The answering half of a JSON-lines process: read a request, run its handler, write the reply.

Standard library only: `hudi_peer_server` runs this inside a virtual environment that does not hold
Tideline. A request is one line `{"operation": name, "arguments": {...}}` on standard input; a reply
is one line with `result` and `seconds` (how long the handler worked), or `error`. Standard output
belongs to the replies alone: whatever else a handler or a child process prints, and the full
traceback of every failure, goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

Handler = Callable[..., Any]


def claim_standard_output() -> TextIO:
    """Take standard output for replies; to be called before any child process is started."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return replies


def serve(handlers: Mapping[str, Handler], output: TextIO) -> None:
    """Say that it is ready, then answer requests until standard input ends or `stop` arrives."""
    with output as replies:
        _send(replies, {"result": "ready", "seconds": 0.0})
        for line in sys.stdin:
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
    told = [line for line in lines if line.strip() and not line.lstrip().startswith(("at ", "..."))]
    return "\n".join([f"{type(failure).__name__}: {' '.join(told[:2])}", *told[2:]])


def _send(replies: TextIO, reply: Mapping[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()
