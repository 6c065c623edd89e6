"""Addresses of SQL databases that a resource may name to a process that serves many. Pure.

SQLAlchemy imports a driver by the name in the address, SQLite opens files of this machine, and a
client library takes its password, its keys and its settings from files and variables of the process
where the address has none. So only PostgreSQL is taken, with a user, a password and a host, and
with parameters that name neither files nor libraries. Every part is matched as it is written, so
that no other parser can read it otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from urllib.parse import quote

from tideline.errors import ConfigError

_WORD = r"[A-Za-z0-9._~%!$&'()*+,;=-]+"
_ADDRESS = re.compile(
    rf"postgresql(\+psycopg2?)?://{_WORD}:{_WORD}@"
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9A-Fa-f:.]+\])(:(?P<port>[0-9]{1,5}))?"
    r"/[A-Za-z0-9_.-]+(\?(?P<query>[A-Za-z0-9_=&-]*))?"
)
_PARAMETERS = {
    "sslmode": re.compile(r"disable|allow|prefer|require|verify-ca|verify-full"),
    "connect_timeout": re.compile(r"[0-9]{1,3}"),
    "application_name": re.compile(r"[A-Za-z0-9_-]{1,63}"),
}
_FIXED = {"gssencmode": "disable", "connect_timeout": "20"}
"""Kerberos would log in as this process."""
_PORT = 5432


def resource_sql_address(address: str, address_of: Callable[[str, int], str] | None = None) -> str:
    """The address as it is opened; with `address_of` only the numeric address of its host is
    connected to, and a certificate is still that of the host.

    Raises ConfigError, which does not repeat the address: it holds a password.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        raise ConfigError(
            "an SQL catalog of a resource is a PostgreSQL database, given as "
            "postgresql://user:password@host:port/database in its Secret"
        )
    given: dict[str, str] = {}
    for pair in filter(None, (found["query"] or "").split("&")):
        name, _, text = pair.partition("=")
        allowed = _PARAMETERS.get(name)
        if allowed is None or not allowed.fullmatch(text):
            message = (
                "a parameter in the address of an SQL catalog is not taken; only "
                f"{', '.join(_PARAMETERS)} are"
            )
            raise ConfigError(message, value=name[:64])
        given[name] = text
    if address_of is not None:
        port = int(found["port"] or _PORT)
        given["hostaddr"] = quote(address_of(found["host"].strip("[]"), port), safe="")
    query = "&".join(f"{name}={text}" for name, text in {**_FIXED, **given}.items())
    return f"{address.partition('?')[0]}?{query}"
