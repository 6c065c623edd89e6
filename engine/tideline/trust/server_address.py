"""The server that an address names: what credentials are bound to. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from tideline.errors import ConfigError

_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "thrift": 9083}
_OF_HIVE = "thrift://"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Scheme, host and port, in one spelling. A file of SQLite has its path as its host."""

    scheme: str
    host: str
    port: int | None

    @classmethod
    def of(cls, url: str) -> ServerAddress:
        """That of a URL, of several the first. Raises ConfigError for what is no URL."""
        parts = _split(_each(url)[0])
        scheme = parts.scheme.lower().partition("+")[0]
        if not parts.netloc:
            return cls(scheme, parts.path, None)
        host, port = _host_and_port(parts)
        return cls(scheme, host, _PORTS.get(scheme) if port is None else port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        is_usual = self.port is None or self.port == _PORTS.get(self.scheme)
        return f"{self.scheme}://{host}" if is_usual else f"{self.scheme}://{host}:{self.port}"


def is_same_place(left: str, right: str) -> bool:
    """Whether two addresses name the same server and the same path on it, for any user."""
    ones, others = _each(left), _each(right)
    return len(ones) == len(others) and all(map(_is_same_address, ones, others))


def is_plain_url(url: str) -> bool:
    """Whether it is the address of a web server alone: no user, query or fragment."""
    try:
        parts = _split(url)
        host, _ = _host_and_port(parts)
    except ConfigError:
        return False
    return (
        parts.scheme in ("http", "https")
        and bool(host)
        and "@" not in parts.netloc
        and "\\" not in url
        and not any(mark in url for mark in "?#")
    )


def _is_same_address(left: str, right: str) -> bool:
    first, second = _split(left), _split(right)
    return ServerAddress.of(left) == ServerAddress.of(right) and _rest(first) == _rest(second)


def _each(url: str) -> list[str]:
    """Those of a Hive metastore may be several, with commas between them."""
    return [part.strip() for part in url.split(",")] if url.startswith(_OF_HIVE) else [url]


def _rest(parts: SplitResult) -> tuple[str, str]:
    return parts.path.rstrip("/"), parts.query


def _split(url: str) -> SplitResult:
    if not url.isprintable() or " " in url:
        raise ConfigError("an address has characters that no URL has")
    try:
        return urlsplit(url)
    except ValueError as error:
        raise ConfigError("an address is no URL") from error


def _host_and_port(parts: SplitResult) -> tuple[str, int | None]:
    try:
        return (parts.hostname or "").removesuffix("."), parts.port
    except ValueError as error:
        raise ConfigError("an address is no URL: its port is no number") from error
