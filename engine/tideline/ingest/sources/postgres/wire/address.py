"""Where a connection string leads, read without libpq: a value.

It is a tenant's, and is read in a process that serves others. So whatever names a file, a service
or a socket of that process is refused, and no variable of its environment counts. What is not known
is refused as well: an option that is passed over could be one that protects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from urllib.parse import unquote

from tideline.errors import ConfigError
from tideline.ingest.sources.postgres.credentials import AUTHORITIES, CERTIFICATE, KEY, SAFEST
from tideline.secret_values import note_secrets

_SCHEMES = ("postgresql://", "postgres://")
_PORT = "5432"
_HOSTS_MAX = 8
_LENGTH_MAX = 8192
_SYSTEM = "system"
_FILES: Mapping[str, str] = {
    "sslrootcert": f"give the certificates as {AUTHORITIES}, or sslrootcert=system",
    "sslcert": f"give the certificate as {CERTIFICATE}",
    "sslkey": f"give the key as {KEY}",
    "passfile": "give the password",
    "service": "give what the service has",
    "servicefile": "give what the service has",
    "sslcrl": "leave it out",
    "sslcrldir": "leave it out",
    "sslkeylogfile": "leave it out",
}
"""Options that name files, and what to give instead."""
_TAKEN = ("host", "hostaddr", "port", "dbname", "user", "password", "sslmode", "options")
_OTHERWISE_SAFE: Mapping[str, tuple[str, ...]] = {
    "target_session_attrs": ("any", "read-write", "primary"),
    "gssencmode": ("disable", "prefer"),
    "channel_binding": ("disable", "prefer"),
    "sslnegotiation": ("postgres",),
    "ssl_min_protocol_version": ("TLSv1", "TLSv1.1", "TLSv1.2"),
    "load_balance_hosts": ("disable", "random"),
}
"""Options with values that ask for nothing that is not done."""
_PASSED_OVER = (
    *("application_name", "fallback_application_name", "client_encoding", "connect_timeout"),
    *("keepalives", "keepalives_idle", "keepalives_interval", "keepalives_count"),
    *("tcp_user_timeout", "sslsni", "sslcompression"),
)
_PAIR = re.compile(
    r"\s*([^\s=]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)(?:[^\s\\]|\\.)*)?)", re.S
)


class SslMode(Enum):
    """Whether TLS is spoken, and what of the server's certificate is verified; libpq's values."""

    DISABLE = "disable"
    ALLOW = "allow"
    PREFER = "prefer"
    REQUIRE = "require"
    VERIFY_CA = "verify-ca"
    VERIFY_FULL = "verify-full"

    @property
    def may_be_plain(self) -> bool:
        return self in (SslMode.DISABLE, SslMode.ALLOW, SslMode.PREFER)


@dataclass(frozen=True, slots=True)
class Host:
    """A server: its name, the address that is connected to, and its port."""

    name: str
    address: str
    port: int


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """What a connection string says. The hosts are tried in their order; where it `wants_primary`
    standbys are passed over."""

    hosts: tuple[Host, ...]
    database: str
    user: str
    password: str = ""
    mode: SslMode = SslMode.PREFER
    trusts_system: bool = False
    options: str = ""
    wants_primary: bool = False


def read_address(text: str, *, has_authorities: bool) -> Address:
    """Raises ConfigError, without a word of the string's values."""
    note_secrets((text,))
    if len(text) > _LENGTH_MAX:
        raise _fault("it is too long")
    found = dict(_of_uri(text) if text.startswith(_SCHEMES) else _of_pairs(text))
    note_secrets((found.get("password"),))
    trusts_system = found.get("sslrootcert") == _SYSTEM
    if trusts_system:
        del found["sslrootcert"]
    for name, value in found.items():
        if value:
            _require_known(name, value)
    user = found.get("user", "")
    if not user:
        raise _fault("it has no user")
    default = SAFEST if has_authorities or trusts_system else SslMode.PREFER.value
    return Address(
        tuple(_hosts(found)),
        found.get("dbname") or user,
        user,
        found.get("password", ""),
        _mode(found.get("sslmode") or default, trusts_system=trusts_system),
        trusts_system,
        found.get("options", ""),
        found.get("target_session_attrs", "any") != "any",
    )


def _require_known(name: str, value: str) -> None:
    if name in _FILES:
        raise _fault(f"{name} names what only a process of its own may read: {_FILES[name]}")
    if name in _OTHERWISE_SAFE:
        if value not in _OTHERWISE_SAFE[name]:
            raise _fault(f"{name} may be {' or '.join(_OTHERWISE_SAFE[name])} here")
    elif name not in _TAKEN and name not in _PASSED_OVER:
        raise _fault(f"the operator does not take the option {name}")
    if "\0" in value:
        raise _fault(f"{name} has a zero byte")


def _mode(text: str, *, trusts_system: bool) -> SslMode:
    try:
        mode = SslMode(text)
    except ValueError:
        known = ", ".join(item.value for item in SslMode)
        raise _fault(f"sslmode is none of {known}") from None
    if trusts_system and mode is not SslMode.VERIFY_FULL:
        raise _fault("sslrootcert=system is for sslmode=verify-full")
    return mode


def _hosts(found: Mapping[str, str]) -> Iterator[Host]:
    names = found.get("host", "").split(",")
    addresses = found.get("hostaddr", "").split(",")
    if not found.get("hostaddr"):
        addresses = names
    elif not found.get("host"):
        names = addresses
    ports = (found.get("port") or _PORT).split(",")
    if len(ports) == 1:
        ports *= len(names)
    if not len(names) == len(addresses) == len(ports) <= _HOSTS_MAX:
        raise _fault(f"hosts, addresses and ports are not as many, or more than {_HOSTS_MAX}")
    for name, address, port in zip(names, addresses, ports, strict=True):
        host = address or name
        if not host or host.startswith(("/", "@")):
            raise _fault("it has no host, or a socket of this machine: give host:port")
        if not re.fullmatch(r"[0-9]{1,5}", port or _PORT):
            raise _fault("a port is no number")
        yield Host(name or host, host, int(port or _PORT))


def _of_pairs(text: str) -> Iterator[tuple[str, str]]:
    """Of `host=... user=...`."""
    at = 0
    while text[at:].strip():
        pair = _PAIR.match(text, at)
        if pair is None:
            raise _fault("it is neither a URI nor made of name=value")
        value = pair[3] or "" if pair[2] is None else pair[2]
        yield pair[1], re.sub(r"\\(.)", r"\1", value, flags=re.S)
        at = pair.end()


def _of_uri(text: str) -> Iterator[tuple[str, str]]:
    rest = text.partition("://")[2]
    # As libpq has it: what ends with the first @ are credentials, whatever is in them but a slash.
    if "@" in rest.partition("/")[0]:
        credentials, _, rest = rest.partition("@")
        user, colon, password = credentials.partition(":")
        yield "user", _decoded(user)
        if colon:
            yield "password", _decoded(password)
    rest, _, options = rest.partition("?")
    servers, _, database = rest.partition("/")
    hosts, ports = [], []
    for server in servers.split(","):
        parts = re.fullmatch(r"(\[[^\]]+\]|[^:\[\]]*)(?::([^:]*))?", server)
        if parts is None:
            raise _fault("its hosts cannot be read")
        hosts.append(_decoded(parts[1].strip("[]")))
        ports.append(_decoded(parts[2] or ""))
    yield "host", ",".join(hosts)
    if any(ports):
        yield "port", ",".join(ports)
    if database:
        yield "dbname", _decoded(database)
    for option in filter(None, options.split("&")):
        name, equals, value = option.partition("=")
        if not equals or "=" in value:
            raise _fault("an option is not name=value")
        if (name, value) == ("ssl", "true"):
            name, value = "sslmode", SslMode.REQUIRE.value
        yield _decoded(name), _decoded(value)


def _decoded(text: str) -> str:
    if re.search(r"%(?![0-9a-fA-F]{2})|%00", text):
        raise _fault("a percent sign is not followed by two digits")
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        raise _fault("it is not UTF-8") from None


def _fault(words: str) -> ConfigError:
    return ConfigError(f"the connection string cannot be used: {words}")
