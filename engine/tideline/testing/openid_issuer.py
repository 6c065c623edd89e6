"""An issuer of identity tokens, as a cluster's API server is one, for MinIO's STS to trust.

It serves its discovery document and its public key over plain HTTP on the loopback interface.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any

from Crypto.Hash import SHA256
from Crypto.PublicKey import RSA
from Crypto.Signature import pkcs1_15

from tideline.testing.loopback_server import LoopbackServer

DISCOVERY_PATH = "/.well-known/openid-configuration"
AUDIENCE = "tideline-tests"
_KEYS_PATH = "/keys"
_KEY_ID = "only"


class OpenIdIssuer(LoopbackServer):
    """A running issuer for the length of a `with` block."""

    def __init__(self) -> None:
        self._key = RSA.generate(2048)
        documents = {DISCOVERY_PATH: self._discovery, _KEYS_PATH: self._keys}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                make = documents.get(self.path)
                body = json.dumps(make() if make else {}).encode()
                self.send_response(200 if make else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing to say."""

        super().__init__(Handler)

    def token(self, audience: str = AUDIENCE, *, seconds: int = 3_600) -> str:
        """A signed token for `audience`."""
        now_s = int(time.time())
        claims = {
            "iss": self.url,
            "sub": "system:serviceaccount:lake:tideline-engine",
            "aud": [audience],
            "iat": now_s,
            "exp": now_s + seconds,
        }
        signed = f"{_part({'alg': 'RS256', 'typ': 'JWT', 'kid': _KEY_ID})}.{_part(claims)}"
        signature = pkcs1_15.new(self._key).sign(SHA256.new(signed.encode()))
        return f"{signed}.{_text(signature)}"

    def _discovery(self) -> dict[str, Any]:
        return {
            "issuer": self.url,
            "jwks_uri": f"{self.url}{_KEYS_PATH}",
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def _keys(self) -> dict[str, Any]:
        numbers = {"n": self._key.n, "e": self._key.e}
        coded = {
            name: _text(value.to_bytes(-(-value.bit_length() // 8), "big"))
            for name, value in numbers.items()
        }
        key = {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": _KEY_ID, **coded}
        return {"keys": [key]}


def trusting(discovery_url: str, audience: str = AUDIENCE) -> Mapping[str, str]:
    """MinIO's settings to let bearers of an issuer's tokens read and write everything."""
    return {
        "MINIO_IDENTITY_OPENID_CONFIG_URL": discovery_url,
        "MINIO_IDENTITY_OPENID_CLIENT_ID": audience,
        "MINIO_IDENTITY_OPENID_ROLE_POLICY": "readwrite",
    }


def role_arn(audience: str = AUDIENCE) -> str:
    """What MinIO calls the role of these bearers: it is made of the audience."""
    return f"arn:minio:iam:::role/{_text(hashlib.sha1(audience.encode()).digest())}"


def _part(content: Mapping[str, object]) -> str:
    return _text(json.dumps(content).encode())


def _text(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
