"""What all clients of obstore are opened with: time limits, retries, certificates, a proxy."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from tideline.errors import ConfigError
from tideline.secret_values import holds_secret
from tideline.storage.egress.client_files import ClientFiles

_PLACE = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(:\d+)?(/[\w.~/-]*)?")
"""A host and a path. Hadoop would put variables of the environment in the place of `${env.…}`."""
_process_with_runtime: int | None = None


class Endpoint(Protocol):
    """Where a store is served, and by whose certificates: `ca_bundle` is a file of them."""

    @property
    def allow_http(self) -> bool: ...

    @property
    def ca_bundle(self) -> str | None: ...

    @property
    def client_files(self) -> ClientFiles | None:
        """The certificate that is shown to the server."""

    @property
    def service_url(self) -> str:
        """The URL of the service, without the bucket."""

    @property
    def services(self) -> tuple[str, ...]:
        """What credentials for it may be meant for, in words: first it alone."""

    def server(self, bucket: str) -> str:
        """The URL that requests for a bucket go to. Raises ConfigError."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How long requests may take. `read_timeout_s` starts again with every byte received,
    `total_timeout_s` with every attempt; `metadata_timeout_s` is the same for small requests."""

    connect_timeout_s: float = 3.0
    read_timeout_s: float = 8.0
    data_read_timeout_s: float = 60.0
    retries_max: int = 6
    retry_timeout_s: float = 10.0
    total_timeout_s: float = 3_600.0
    metadata_timeout_s: float = 300.0


def client_settings(
    limits: RequestLimits,
    *,
    data: bool,
    allow_http: bool,
    authorities: bytes | None,
    proxy_url: str | None = None,
) -> dict[str, Any]:
    """The settings of a client of any kind; generous time limits when it is for `data`."""
    read_timeout_s = limits.data_read_timeout_s if data else limits.read_timeout_s
    total_timeout_s = limits.total_timeout_s if data else limits.metadata_timeout_s
    options: dict[str, object] = {
        "allow_http": allow_http,
        "connect_timeout": timedelta(seconds=limits.connect_timeout_s),
        "read_timeout": timedelta(seconds=read_timeout_s),
        "timeout": timedelta(seconds=total_timeout_s),
    }
    if authorities is not None:
        options["root_certificate"] = authorities
    if proxy_url is not None:
        options["proxy_url"] = proxy_url
        # Left out, hosts that go around the proxy would be read from the environment.
        options["proxy_excludes"] = ""
    return {
        "client_options": options,
        "retry_config": {
            "max_retries": limits.retries_max,
            "retry_timeout": timedelta(seconds=limits.retry_timeout_s * (3 if data else 1)),
            "backoff": {
                "init_backoff": timedelta(milliseconds=100),
                "max_backoff": timedelta(seconds=2),
                "base": 2,
            },
        },
    }


def refuse_after_fork() -> None:
    """obstore's threads do not survive a fork: a request in the child would hang for ever."""
    global _process_with_runtime
    if _process_with_runtime is None:
        _process_with_runtime = os.getpid()
    elif _process_with_runtime != os.getpid():
        raise ConfigError(
            "an object store was used before this process forked; start workers with 'spawn'"
        )


def authorities_of(ca_bundle: str | None) -> bytes | None:
    """Certificates to trust, from a file. Raises ConfigError when it cannot be read."""
    if ca_bundle is None:
        return None
    try:
        return Path(ca_bundle).read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read ca_bundle: {error.strerror}", path=ca_bundle) from error


def checked_switch(name: str, value: str | bool) -> str:
    """A storage option that is true or false. Raises ConfigError."""
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"storage option {name!r} is true or false", value=value)
    return text


def checked_endpoint(value: str, given: Mapping[str, str]) -> str:
    """The URL of an endpoint among options. Raises ConfigError for what is none, for one with
    credentials, and for http without `allow_http`."""
    parts = urlsplit(value)
    if "@" in parts.netloc or holds_secret(value):
        raise ConfigError("the endpoint must not carry credentials: use the environment")
    is_plain = _PLACE.fullmatch(parts.netloc + parts.path) is not None
    if parts.scheme not in ("http", "https") or parts.query or parts.fragment or not is_plain:
        raise ConfigError("the endpoint must be a URL like https://host:9000", value=value)
    if parts.scheme == "http" and given.get("allow_http") != "true":
        message = "an http endpoint needs --allow-http (the storage option allow_http=true)"
        raise ConfigError(message, value=value)
    return value.rstrip("/")
