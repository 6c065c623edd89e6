"""An STS on the loopback interface: gives a new session token for each web identity."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler

from tideline.testing.loopback_server import LoopbackServer

_NAMESPACE = "https://sts.amazonaws.com/doc/2011-06-15/"


class TokenService(LoopbackServer):
    """Says that a token lasts `lasts_s`. `given` are all tokens, the newest last; while it
    `is_down`, it answers 503."""

    def __init__(self, lasts_s: float = 3_600.0) -> None:
        self.lasts_s = lasts_s
        self.is_down = False
        self.asked = 0
        self.given: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                service.asked += 1
                body = b"" if service.is_down else service._answer()
                self.send_response(503 if service.is_down else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing to say."""

        super().__init__(Handler)

    def _answer(self) -> bytes:
        token = f"token-{len(self.given) + 1}"
        self.given.append(token)
        ends = datetime.now(UTC) + timedelta(seconds=self.lasts_s)
        fields = {
            "AccessKeyId": "key",
            "SecretAccessKey": f"secret-of-{token}",
            "SessionToken": token,
            "Expiration": ends.isoformat(),
        }
        said = "".join(f"<{name}>{text}</{name}>" for name, text in fields.items())
        return f'<Answer xmlns="{_NAMESPACE}"><Credentials>{said}</Credentials></Answer>'.encode()
