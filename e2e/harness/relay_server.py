"""Passes connections on: `relay_server.py PORT HOST:PORT`, in a pod on the network of its node."""

from __future__ import annotations

import shutil
import socket
import sys
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread


class _Relay(StreamRequestHandler):
    def handle(self) -> None:
        host, _, port = sys.argv[2].rpartition(":")
        with socket.create_connection((host, int(port))) as behind:
            back = Thread(target=_copy, args=(behind, self.connection), daemon=True)
            back.start()
            _copy(self.connection, behind)
            back.join()


class _Server(ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError), source.makefile("rb", 0) as read, target.makefile("wb", 0) as write:
        shutil.copyfileobj(read, write)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    _Server(("", int(sys.argv[1])), _Relay).serve_forever()
