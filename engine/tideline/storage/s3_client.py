"""Opening an obstore client: endpoint, time limits, and credentials from the environment."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import obstore.store
from obstore.exceptions import BaseError

from tideline.errors import ConfigError

_process_with_runtime: int | None = None


@dataclass(frozen=True, slots=True)
class S3Endpoint:
    """Where the bucket is served; `url` None means Amazon's own endpoint of the region."""

    url: str | None = None
    region: str = "us-east-1"
    path_style: bool = True
    allow_http: bool = False
    ca_bundle: str | None = None

    @property
    def service_url(self) -> str:
        """The URL of the service, without the bucket."""
        return self.url or f"https://s3.{self.region}.amazonaws.com"


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How long requests may take. `read_timeout_s` starts anew with every byte received."""

    connect_timeout_s: float = 3.0
    read_timeout_s: float = 8.0
    data_read_timeout_s: float = 60.0
    retries_max: int = 6
    retry_timeout_s: float = 10.0


def open_client(bucket: str, endpoint: S3Endpoint, limits: RequestLimits, *, data: bool) -> Any:
    """An obstore client, with generous time limits when it is for `data`.

    Raises ConfigError when the environment holds no credentials or `ca_bundle` cannot be read.
    """
    _require_credentials()
    url = endpoint.service_url
    if not endpoint.path_style:
        scheme, _, host = url.partition("://")
        url = f"{scheme}://{bucket}.{host}"
    read_timeout_s = limits.data_read_timeout_s if data else limits.read_timeout_s
    retry_timeout_s = limits.retry_timeout_s * (3 if data else 1)
    options: dict[str, object] = {
        "allow_http": endpoint.allow_http,
        "connect_timeout": timedelta(seconds=limits.connect_timeout_s),
        "read_timeout": timedelta(seconds=read_timeout_s),
        "timeout": timedelta(hours=1),
    }
    if endpoint.ca_bundle is not None:
        try:
            options["root_certificate"] = Path(endpoint.ca_bundle).read_bytes()
        except OSError as error:
            raise ConfigError(
                f"Cannot read ca_bundle: {error.strerror}", path=endpoint.ca_bundle
            ) from error
    try:
        # Both endpoint settings: either of them, left out, would be read from the environment.
        return obstore.store.S3Store(
            bucket,
            endpoint=url,
            aws_endpoint_url_s3=url,
            region=endpoint.region,
            virtual_hosted_style_request=not endpoint.path_style,
            conditional_put="etag",
            client_options=cast(Any, options),
            retry_config={
                "max_retries": limits.retries_max,
                "retry_timeout": timedelta(seconds=retry_timeout_s),
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=2),
                    "base": 2,
                },
            },
        )
    except (BaseError, ValueError) as error:
        raise ConfigError(f"Cannot set up S3 access: {type(error).__name__}", value=url) from None


def refuse_after_fork() -> None:
    """obstore's threads do not survive a fork: a request in the child would hang for ever."""
    global _process_with_runtime
    if _process_with_runtime is None:
        _process_with_runtime = os.getpid()
    elif _process_with_runtime != os.getpid():
        raise ConfigError("S3 was used before this process forked; start workers with 'spawn'")


def _require_credentials() -> None:
    given = os.environ.get
    if (
        (given("AWS_ACCESS_KEY_ID") and given("AWS_SECRET_ACCESS_KEY"))
        or given("AWS_WEB_IDENTITY_TOKEN_FILE")
        or given("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        or given("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        or given("AWS_SKIP_SIGNATURE")
    ):
        return
    raise ConfigError(
        "No S3 credentials in the environment: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )
