"""The addresses of a Hive metastore. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tideline.errors import ConfigError

PORT: Final = 9083
ADDRESSES_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class HiveAddress:
    """Where one server of a metastore listens."""

    host: str
    port: int = PORT

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def hive_addresses(uri: str) -> tuple[HiveAddress, ...]:
    """The servers of an address, or of several with commas between them.

    Raises ConfigError for what is no `thrift://host:port`, and for too many.
    """
    found = uri.split(",")
    if len(found) > ADDRESSES_MAX:
        raise ConfigError(f"a Hive metastore has {ADDRESSES_MAX} addresses at most")
    return tuple(_parsed(text.strip()) for text in found)


def user_and_groups(ugi: str) -> tuple[str, ...]:
    """What PyIceberg's property `ugi` says, as `user` or `user:group:group`."""
    return tuple(filter(None, ugi.split(":")))


def _parsed(uri: str) -> HiveAddress:
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or PORT
    except ValueError as error:
        raise _no_address() from error
    has_more = "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme != "thrift" or not host or has_more:
        raise _no_address()
    return HiveAddress(host, port)


def _no_address() -> ConfigError:
    return ConfigError(
        "the address of a Hive metastore is thrift://host:9083, or several with commas; with TLS, "
        "or by HTTP, it is not reached"
    )
