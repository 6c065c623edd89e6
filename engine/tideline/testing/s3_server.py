"""What all servers of S3 in tests have: an address on the loopback interface, one key, buckets."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Mapping

import minio
import minio.error
import urllib3

from tideline.testing.free_port import free_port
from tideline.testing.process_server import OneProcess

BUCKET = "lake"


class S3Server:
    """The key is random; `_port` is set when it starts."""

    def __init__(self) -> None:
        self.access_key = f"tideline-{secrets.token_hex(6)}"
        self.secret_key = secrets.token_urlsafe(24)
        self._port = 0

    @property
    def address(self) -> str:
        """host:port"""
        return f"127.0.0.1:{self._port}"

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"

    def environment(self) -> Mapping[str, str]:
        """The credentials, as S3 clients look for them."""
        return {"AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def storage_options(self) -> Mapping[str, str]:
        """What `StoreLocation.of` needs to reach this server."""
        return {"endpoint": self.endpoint, "allow_http": "true"}

    def client(self) -> minio.Minio:
        """An independent client, for buckets and for looking behind Tideline's back."""
        return minio.Minio(
            self.address,
            access_key=self.access_key,
            secret_key=self.secret_key,
            secure=False,
            http_client=urllib3.PoolManager(
                timeout=30,
                # A server that has just started asks to come back in a minute; it needs a moment.
                retries=urllib3.Retry(
                    total=10,
                    backoff_factor=0.1,
                    status_forcelist=(503,),
                    respect_retry_after_header=False,
                ),
            ),
        )

    def create_bucket(self, name: str | None = None) -> str:
        """Create a bucket, by default one with a new name; returns the name."""
        bucket = name or f"tideline-{secrets.token_hex(6)}"
        self.client().make_bucket(bucket)
        return bucket


class S3Process(S3Server, OneProcess):
    """A server that is one process, with the empty bucket `BUCKET`, for the length of a `with`
    block; built or installed before that, if need be, which takes minutes."""

    def __init__(self) -> None:
        S3Server.__init__(self)
        OneProcess.__init__(self)

    def _launched(self) -> list[str]:
        self._port = free_port()
        return self.command()

    def _answers(self) -> bool:
        """Whether it makes the bucket. A port may be open before that."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1):
                pass
            self.create_bucket(BUCKET)
        except minio.error.S3Error as error:
            # Another process serves the same folder.
            return error.code == "BucketAlreadyOwnedByYou"
        except (OSError, minio.error.MinioException, urllib3.exceptions.HTTPError):
            return False
        return True
