"""What all servers of S3 in tests have: an address on the loopback interface, one key, buckets."""

from __future__ import annotations

import secrets
import socket
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

import minio
import minio.error
import urllib3

from tideline.testing.free_port import free_port
from tideline.testing.server_process import ServerProcess

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


class S3Process(S3Server, ABC):
    """A server that is one process, with the empty bucket `BUCKET`, for the length of a `with`
    block; built or installed before that, if need be, which takes minutes."""

    name: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self._made = tempfile.TemporaryDirectory(prefix="tideline-s3-")
        self.folder = Path(self._made.name)
        self._process = ServerProcess(
            self.name, self._launched, self.folder / "log", self._makes_bucket
        )

    @abstractmethod
    def prepare(self) -> None:
        """Build or install it. Raises CalledProcessError, OSError or PeerUnavailableError."""

    @abstractmethod
    def command(self) -> list[str]:
        """What runs it, at `address`, with files in `folder` alone."""

    def variables(self) -> Mapping[str, str]:
        """Of its environment, beside those of this process."""
        return {}

    def __enter__(self) -> Self:
        self.prepare()
        self._process.variables = self.variables()
        self._process.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._made.cleanup()

    def _launched(self) -> list[str]:
        self._port = free_port()
        return self.command()

    def _makes_bucket(self) -> bool:
        """Whether it has started. A port may be open before that."""
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
