"""An API server that answers by a script, for what a real one cannot be made to do at will."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tideline_operator.kube import KubeApi


class ScriptedServer:
    """Answers every request with the next answer of `script`, and remembers the requests."""

    def __init__(self) -> None:
        self.script: list[tuple[int, Any]] = []
        self.seen: list[tuple[str, str, dict[str, str], bytes]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                body = self.rfile.read(length)
                outer.seen.append((self.command, self.path, dict(self.headers), body))
                status, content = outer.script.pop(0)
                if isinstance(content, list):
                    self.stream(content)
                    return
                text = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                if status == 429:
                    self.send_header("Retry-After", "7")
                self.end_headers()
                self.wfile.write(text)

            def stream(self, parts: list[Any]) -> None:
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                for part in parts:
                    if isinstance(part, float):
                        time.sleep(part)
                        continue
                    data = part if isinstance(part, bytes) else json.dumps(part).encode() + b"\n"
                    self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *arguments: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        """Answer no more."""
        self.server.shutdown()
        self.server.server_close()

    def api(self, folder: Path) -> KubeApi:
        """A client for this server; its kubeconfig goes into `folder`."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {"token": "secret-token"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        path = folder / "kubeconfig"
        path.write_text(yaml.safe_dump(config), "utf-8")
        return KubeApi.from_environment(path)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


def refusal(code: int, reason: str, message: str = "from the server") -> tuple[int, dict[str, Any]]:
    """An unsuccessful answer, as an API server writes it."""
    return code, {"kind": "Status", "code": code, "reason": reason, "message": message}
