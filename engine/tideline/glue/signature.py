"""Signature Version 4 of a POST, as AWS's services check it. Pure.

Source: AWS, "Signature Version 4 signing process".
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

from tideline.storage.s3.client import S3Credentials

_ALGORITHM = "AWS4-HMAC-SHA256"


def signed_headers(
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    keys: S3Credentials,
    *,
    region: str,
    service: str,
    now_s: float,
) -> dict[str, str]:
    """`headers` and those that prove who sends the body to the server of the URL, and when."""
    parts = urlsplit(url)
    at = datetime.fromtimestamp(now_s, UTC)
    moment, day = at.strftime("%Y%m%dT%H%M%SZ"), at.strftime("%Y%m%d")
    sent = {**headers, "Host": parts.netloc, "X-Amz-Date": moment}
    if keys.session_token:
        sent["X-Amz-Security-Token"] = keys.session_token
    lines = sorted((name.lower(), " ".join(text.split())) for name, text in sent.items())
    names = ";".join(name for name, _ in lines)
    request = "\n".join(
        (
            "POST",
            quote(parts.path or "/", safe="/-_.~"),
            "",
            *(f"{name}:{text}" for name, text in lines),
            "",
            names,
            hashlib.sha256(body).hexdigest(),
        )
    )
    scope = f"{day}/{region}/{service}/aws4_request"
    text = "\n".join((_ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in scope.split("/"):
        key = _mac(key, part)
    signature = _mac(key, text).hex()
    sent["Authorization"] = (
        f"{_ALGORITHM} Credential={keys.access_key_id}/{scope}, SignedHeaders={names}, "
        f"Signature={signature}"
    )
    return sent


def _mac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
