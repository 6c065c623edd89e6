"""Users of a MinIO, each with its own rights in some buckets."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from minio import MinioAdmin
from minio.credentials.providers import StaticProvider


class Right(Enum):
    """What a user may do in a bucket."""

    READ = ("s3:GetObject", "s3:ListBucket", "s3:GetBucketLocation")
    ALL = ("s3:*",)


@dataclass(frozen=True, slots=True)
class MinioUser:
    """A user with a random secret."""

    access_key: str = field(default_factory=lambda: f"user-{secrets.token_hex(6)}")
    secret_key: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    def environment(self) -> Mapping[str, str]:
        """The credentials, as S3 clients look for them."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}


class MinioUsers:
    """The users of one server, `address` (host:port), by the keys of its administrator."""

    def __init__(self, address: str, access_key: str, secret_key: str) -> None:
        self._admin = MinioAdmin(
            endpoint=address,
            credentials=StaticProvider(access_key=access_key, secret_key=secret_key),
            secure=False,
        )

    def add(self, rights: Mapping[str, Right]) -> MinioUser:
        """A new user, with these rights by bucket."""
        user = MinioUser()
        self._admin.user_add(user.access_key, user.secret_key)
        self.grant(user, rights)
        return user

    def remove(self, user: MinioUser) -> None:
        """From now on neither the user nor credentials that it was given by the STS count."""
        self._admin.user_remove(user.access_key)

    def grant(
        self, user: MinioUser, rights: Mapping[str, Right], *, encryption: str | None = None
    ) -> None:
        """Give a user these rights by bucket, and no other. With an `encryption`, what is written
        is refused without the header that says so."""
        name = f"policy-{secrets.token_hex(6)}"
        statements: list[dict[str, Any]] = [
            {
                "Effect": "Allow",
                "Action": list(right.value),
                "Resource": [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"],
            }
            for bucket, right in rights.items()
        ]
        if encryption is not None:
            unlike = {"StringNotEquals": {"s3:x-amz-server-side-encryption": encryption}}
            denied = {"Effect": "Deny", "Action": ["s3:PutObject"], "Condition": unlike}
            statements.append({**denied, "Resource": [f"arn:aws:s3:::{name}/*" for name in rights]})
        content = json.dumps({"Version": "2012-10-17", "Statement": statements})
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "policy.json")
            path.write_text(content, "utf-8")
            self._admin.policy_add(name, str(path))
        self._admin.policy_set(name, user=user.access_key)
