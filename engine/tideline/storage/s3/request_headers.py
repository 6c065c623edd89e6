"""What requests to a bucket say besides their credentials: how to encrypt, who pays, a checksum.

Bucket policies demand some of it. Each option has the name that AWS's own tools have for it, and
where it is left out, the variable of the environment counts, as obstore reads it. S3A gets the
same. Keys of the customer (SSE-C) are refused: each reader would need them in its requests.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from tideline.errors import ConfigError
from tideline.storage.remote.client import checked_switch

VARIABLES: Mapping[str, str] = {
    "sse": "AWS_SERVER_SIDE_ENCRYPTION",
    "sse_kms_key_id": "AWS_SSE_KMS_KEY_ID",
    "sse_bucket_key": "AWS_SSE_BUCKET_KEY_ENABLED",
    "requester_pays": "AWS_REQUEST_PAYER",
    "checksum_algorithm": "AWS_CHECKSUM_ALGORITHM",
}
"""The options, and the variables that count without them."""
_KEY = re.compile(r"[A-Za-z0-9:/_.+=,@-]*")
"""Hadoop would put variables of the environment in the place of `${env.…}`."""
_LENGTH_MAX = 2048
_REQUESTER = "requester"
"""What the variable may say for true."""


class Encryption(Enum):
    """Who has the keys that what is written is encrypted with."""

    S3 = "AES256"
    KMS = "aws:kms"
    KMS_TWICE = "aws:kms:dsse"

    @property
    def s3a_name(self) -> str:
        return {"AES256": "AES256", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}[self.value]


class Checksum(Enum):
    """A checksum that the store compares with what has arrived."""

    SHA256 = "SHA256"
    CRC64NVME = "CRC64NVME"


@dataclass(frozen=True, slots=True)
class RequestHeaders:
    """`sse` is the encryption of what is written, None for that of the bucket; `sse_kms_key_id`
    and `sse_bucket_key` are its key, and whether the bucket's own key is derived from it."""

    sse: Encryption | None = None
    sse_kms_key_id: str | None = None
    sse_bucket_key: bool | None = None
    requester_pays: bool = False
    checksum_algorithm: Checksum | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> RequestHeaders:
        """Those of options, and of the environment for what they leave out. Raises ConfigError."""
        found = {name: text for name in VARIABLES if (text := _text(options, name))}
        given = _checked(found, whole=True)
        sse, checksum = given.get("sse"), given.get("checksum_algorithm")
        bucket_key = given.get("sse_bucket_key")
        return cls(
            None if sse is None else Encryption(sse),
            given.get("sse_kms_key_id"),
            None if bucket_key is None else bucket_key == "true",
            given.get("requester_pays") == "true",
            None if checksum is None else Checksum(checksum),
        )

    def client_settings(self) -> dict[str, Any]:
        """Settings of an obstore client, which puts them on each request that takes them."""
        given = {
            "server_side_encryption": _value(self.sse),
            "sse_kms_key_id": self.sse_kms_key_id,
            "sse_bucket_key_enabled": self.sse_bucket_key,
            "request_payer": self.requester_pays,
            "checksum_algorithm": _value(self.checksum_algorithm),
        }
        return {name: value for name, value in given.items() if value is not None}

    def s3a_settings(self) -> dict[str, str]:
        """Settings of S3A, for one bucket. It has none for bucket keys and these checksums."""
        settings = {}
        if self.sse is not None:
            settings["encryption.algorithm"] = self.sse.s3a_name
        if self.sse_kms_key_id is not None:
            settings["encryption.key"] = self.sse_kms_key_id
        if self.requester_pays:
            settings["requester.pays.enabled"] = "true"
        return settings


def checked_headers(options: Mapping[str, str]) -> dict[str, str]:
    """Those among options, in one spelling. Raises ConfigError."""
    return _checked({name: options[name] for name in VARIABLES if name in options}, whole=False)


def _text(options: Mapping[str, str], name: str) -> str | None:
    if name in options:
        return options[name]
    text = os.environ.get(VARIABLES[name])
    return "true" if name == "requester_pays" and (text or "").lower() == _REQUESTER else text


def _checked(given: Mapping[str, str], *, whole: bool) -> dict[str, str]:
    """`whole`: nothing comes from the environment any more."""
    found = dict(given)
    for name in ("sse_bucket_key", "requester_pays"):
        if name in found:
            found[name] = checked_switch(name, found[name])
    sse, key = found.get("sse"), found.get("sse_kms_key_id")
    if sse is not None and sse.lower() == "sse-c":
        raise ConfigError("keys of the customer (SSE-C) are not used: choose aws:kms", value=sse)
    _check_one_of(Encryption, "sse", sse)
    alone = next((name for name in ("sse_kms_key_id", "sse_bucket_key") if name in found), None)
    if whole and alone is not None and sse in (None, "AES256"):
        message = f"{alone} ({VARIABLES[alone]}) goes with sse aws:kms"
        raise ConfigError(message, value=sse or "no sse")
    if key is not None and (len(key) > _LENGTH_MAX or not _KEY.fullmatch(key)):
        raise ConfigError("sse_kms_key_id is the id, the ARN or an alias of a key", value=key[:80])
    checksum = found.get("checksum_algorithm")
    if checksum is not None:
        found["checksum_algorithm"] = checksum = checksum.upper()
    _check_one_of(Checksum, "checksum_algorithm", checksum)
    return found


def _check_one_of(words: type[Enum], name: str, text: str | None) -> None:
    known = [word.value for word in words]
    if text is not None and text not in known:
        raise ConfigError(f"{name} is one of {', '.join(known)}", value=text)


def _value(word: Enum | None) -> str | None:
    return None if word is None else str(word.value)
