"""Connects the Python worker of a stream to Java before it imports anything.

Java starts such a worker as a process, waits ten seconds for it to connect and ten for its secret,
times that no setting changes (Spark's PythonWorkerFactory.createSimpleWorker). The worker does both
when it has imported Spark and Arrow; on a busy machine that takes longer, and the stream ends.

1. Python runs this file first (`start.py` puts its folder on the path of workers). It connects and
   gives the secret.
2. When the worker connects to the same address, its socket becomes the connection that is there,
   and it gives no secret again. For what follows Java waits as long as it takes.

Any other process, and a machine's own `sitecustomize`, are as they were.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket

_WORKER_MODULE = "pyspark.util"


def connect() -> None:
    """Connect where Java says that it waits for a worker; elsewhere do nothing."""
    path = os.environ.get("PYTHON_WORKER_FACTORY_SOCK_PATH")
    port = os.environ.get("PYTHON_WORKER_FACTORY_PORT")
    secret = os.environ.get("PYTHON_WORKER_FACTORY_SECRET", "")
    if not path and not port:
        return
    # Only workers need it.
    import socket

    family: int
    address: Any
    if path:
        family, address = socket.AF_UNIX, path
    else:
        is_v6 = os.environ.get("SPARK_PREFER_IPV6", "false").lower() == "true"
        family = socket.AF_INET6 if is_v6 else socket.AF_INET
        address = ("::1" if is_v6 else "127.0.0.1", int(port or 0))
    early = socket.socket(family)
    try:
        early.connect(address)
        if not path:
            _authenticate(early, secret.encode())
    except OSError:
        early.close()
        return  # The worker tries again, and reports what is wrong.

    def hand_over(self: socket.socket, given: Any) -> None:
        wanted = given[:2] if isinstance(given, tuple) else given
        if wanted != address or _WORKER_MODULE not in sys.modules:
            ordinary(self, given)
            return
        setattr(socket.socket, "connect", ordinary)  # noqa: B010
        os.dup2(early.fileno(), self.fileno())
        early.close()
        self.settimeout(self.gettimeout())
        if not path:
            _skip_authentication()

    ordinary = socket.socket.connect
    setattr(socket.socket, "connect", hand_over)  # noqa: B010


def run_the_next() -> None:
    """Run the `sitecustomize` that this one stands before, if there is one."""
    here = Path(__file__).parent
    sys.path[:] = [entry for entry in sys.path if Path(entry) != here]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _authenticate(early: socket.socket, secret: bytes) -> None:
    """As Spark does (SocketAuthHelper): lengths of four bytes before both texts."""
    early.sendall(len(secret).to_bytes(4, "big") + secret)
    with early.makefile("rb", buffering=0) as answers:
        length = int.from_bytes(answers.read(4) or b"", "big")
        if answers.read(length) != b"ok":
            raise ConnectionError("the secret was refused")


def _skip_authentication() -> None:
    """Once, in the module that has just connected."""
    module: Any = sys.modules[_WORKER_MODULE]
    ordinary = module._do_server_auth

    def skip(*_: object) -> None:
        module._do_server_auth = ordinary

    module._do_server_auth = skip


if __name__ == "sitecustomize":
    connect()
    run_the_next()
