"""Properties of Iceberg catalogs, and which authors may set each. Pure.

PyIceberg merges what configuration, a catalog's `/v1/config`, its answer about a table and the
table itself say into one mapping, in which a name may stand for an address, a secret, a file of
this machine or a program. Here each name has the least trusted author who may set it:

- `CATALOG`, the server: how its own paths and pages are made.
- `RESOURCE`, a LakeTable and its Secret: the address, and what authenticates there.
- `PROCESS`: everything else. That is all that names code (`*impl`, `auth`), files (`ssl`), this
  process's identities (`rest.sigv4*`) and any other header.
- `TABLE`: nothing. Properties of a table describe its files, and configure no client.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from tideline.secret_values import is_secret_name
from tideline.trust.author import Author
from tideline.trust.server_address import is_plain_url

URI = "uri"
TYPE = "type"
WAREHOUSE = "warehouse"
OAUTH2_SERVER = "oauth2-server-uri"
HEADER = "header."
HIVE_USER = "ugi"
"""As whom a Hive metastore is asked: `user`, or `user:group`."""
KERBEROS = "hive.kerberos-authentication"
_LENGTH_MAX = 16_384
_PATH = re.compile(r"[A-Za-z0-9._~!$&'()*+,;=:@%|-]+(/[A-Za-z0-9._~!$&'()*+,;=:@%|-]+)*")
_STORE_FAMILIES = ("s3.", "gcs.", "adls.", "oss.", "hdfs.", "hf.", "client.region")
"""For clients that read the files themselves: Tideline does so with the table's own store."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Who may set a property at least, what it is, and which values are taken."""

    least: Author
    meaning: str
    is_valid: Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class Admitted:
    """The properties that are taken, and the names of those that are not."""

    properties: dict[str, str]
    ignored: tuple[str, ...]

    @property
    def worth_naming(self) -> tuple[str, ...]:
        """Without those that only other clients need."""
        return tuple(name for name in self.ignored if not name.startswith(_STORE_FAMILIES))


def admitted(properties: Mapping[str, object], by: Author) -> Admitted:
    """What of `properties` their author may set. Of PROCESS all are taken by those who ask."""
    taken: dict[str, str] = {}
    ignored: list[str] = []
    for name, value in properties.items():
        rule = RULES.get(name.lower() if name.lower().startswith(HEADER) else name)
        if rule is None or by < rule.least or not _is_taken(rule, value):
            ignored.append(name)
        else:
            taken[name] = str(value)
    return Admitted(taken, tuple(ignored))


def secrets_in(properties: Mapping[str, object]) -> Iterator[str]:
    """The secret values among properties, nested ones included, in every part that is one."""
    for name, value in properties.items():
        if isinstance(value, Mapping):
            yield from secrets_in(value)
        elif isinstance(value, str) and is_secret_name(name):
            yield value
            yield from re.split(r"[:\s]", value)[1:]


def credentials_among(properties: Mapping[str, object]) -> tuple[str, ...]:
    """Names of properties that identify this process to a server."""
    return tuple(
        name for name in properties
        if name in ("token", "credential", "subject-token", "auth", "ssl")
        or name.startswith((HEADER, "auth.", "ssl.", "rest.sig"))
    )  # fmt: skip


def _is_taken(rule: Rule, value: object) -> bool:
    if isinstance(value, bool | int):
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= _LENGTH_MAX:
        return False
    return value.isprintable() and rule.is_valid(value)


def _is_path(text: str) -> bool:
    """Segments of a path below the catalog's own, which none of them leaves."""
    plain = unquote(text)
    has_marks = any(mark in plain for mark in "\\?#\x00")
    parts = plain.strip("/").split("/")
    return (
        bool(_PATH.fullmatch(text.strip("/"))) and not has_marks and not {"", ".", ".."} & {*parts}
    )


def _is_separator(text: str) -> bool:
    plain = unquote(text)
    return len(text) <= len("%1F") and len(plain) == 1 and plain not in "/\\?#%\x00"


def _is_one_of(*words: str) -> Callable[[str], bool]:
    return lambda text: text.lower() in words


def _is_page_size(text: str) -> bool:
    return re.fullmatch("[1-9][0-9]{0,4}", text) is not None


def _is_milliseconds(text: str) -> bool:
    return re.fullmatch("[1-9][0-9]{0,14}", text) is not None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6})?", text) is not None


def _is_user(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_.@-]{1,128}(:[A-Za-z0-9_.@-]{1,128}){0,16}", text) is not None


def _is_anything(_: str) -> bool:
    return True


_BOOLEAN = _is_one_of("true", "false")
_HEADERS: Iterable[str] = (
    "header.authorization", "header.x-api-key", "header.x-iceberg-access-delegation",
    "header.polaris-realm",
)  # fmt: skip
_OF_GLUE: Iterable[str] = (
    "glue.region", "glue.id", "glue.skip-archive", "glue.access-key-id", "glue.secret-access-key",
    "glue.session-token", "client.region", "client.access-key-id", "client.secret-access-key",
    "client.session-token",
)  # fmt: skip
_SWITCHES_OF_HIVE: Iterable[str] = (KERBEROS, "hive.hive2-compatible")
_LOCKS_OF_HIVE: Iterable[str] = (
    "lock-check-min-wait-time", "lock-check-max-wait-time", "lock-check-retries",
)  # fmt: skip
RULES: Mapping[str, Rule] = {
    "prefix": Rule(Author.CATALOG, "path of the catalog's tables on its server", _is_path),
    "namespace-separator": Rule(Author.CATALOG, "between the levels of names", _is_separator),
    "rest-page-size": Rule(Author.CATALOG, "names in an answer", _is_page_size),
    "view-endpoints-supported": Rule(Author.CATALOG, "whether it has views", _BOOLEAN),
    WAREHOUSE: Rule(Author.CATALOG, "name of a part of the catalog", _is_anything),
    TYPE: Rule(Author.RESOURCE, "kind of catalog", _is_one_of("rest", "sql", "glue", "hive")),
    URI: Rule(Author.RESOURCE, "address; sql_address.py has the rules of an SQL one", _is_anything),
    OAUTH2_SERVER: Rule(Author.RESOURCE, "address that tokens come from", is_plain_url),
    "token": Rule(Author.RESOURCE, "secret", _is_anything),
    "credential": Rule(Author.RESOURCE, "secret", _is_anything),
    "subject-token": Rule(Author.RESOURCE, "secret", _is_anything),
    "subject-token-type": Rule(Author.RESOURCE, "what a subject's token is", _is_anything),
    "token-exchange-enabled": Rule(Author.RESOURCE, "whether a token becomes another", _BOOLEAN),
    "token-refresh-enabled": Rule(Author.RESOURCE, "whether a token is replaced", _BOOLEAN),
    "token-expires-in-ms": Rule(Author.RESOURCE, "when a token ends", _is_milliseconds),
    "scope": Rule(Author.RESOURCE, "what a token is asked for", _is_anything),
    "audience": Rule(Author.RESOURCE, "what a token is asked for", _is_anything),
    "resource": Rule(Author.RESOURCE, "what a token is asked for", _is_anything),
    **{name: Rule(Author.RESOURCE, "header to the catalog alone", _is_anything)
       for name in _HEADERS},
    "glue.endpoint": Rule(Author.RESOURCE, "address of a Glue catalog", is_plain_url),
    **{name: Rule(Author.RESOURCE, "of a Glue catalog", _is_anything) for name in _OF_GLUE},
    HIVE_USER: Rule(Author.RESOURCE, "user of a Hive metastore", _is_user),
    **{name: Rule(Author.RESOURCE, "of a Hive metastore", _BOOLEAN) for name in _SWITCHES_OF_HIVE},
    **{name: Rule(Author.RESOURCE, "of locks of Hive", _is_number) for name in _LOCKS_OF_HIVE},
}  # fmt: skip
