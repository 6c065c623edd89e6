"""PyIceberg's REST catalog, whose answers are data.

What the server says about itself (`/v1/config`) and about a table passes the list of properties
that a catalog may set (`tideline.trust.catalog_properties`). How requests authenticate follows from
the properties that the catalog was opened with, and from no answer. What an answer vends to reach a
table's files goes with the table that it was made of (`OwnFileIO.vended`), where the property
`header.X-Iceberg-Access-Delegation` asks for it, as it does where it is not set.

Needs the extra `iceberg`.
"""

from __future__ import annotations

import base64
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

from pyiceberg.catalog.rest import (
    AUTH,
    DEFAULT_NAMESPACE_SEPARATOR,
    NAMESPACE_SEPARATOR_PROPERTY,
    SIGV4,
    Capability,
    Endpoint,
    Endpoints,
    LoadCredentialsResponse,
    RestCatalog,
    TableResponse,
)
from pyiceberg.catalog.rest.auth import (
    AuthManager,
    AuthManagerAdapter,
    AuthManagerFactory,
    NoopAuthManager,
)
from pyiceberg.catalog.rest.response import _handle_non_200_response
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    OAuthError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.typedef import Identifier
from pyiceberg.utils.properties import property_as_bool
from requests import HTTPError, Session

from tideline.errors import ConfigError
from tideline.iceberg.table.catalog_files import OwnFileIO, OwnFiles, check_overridden
from tideline.iceberg.table.catalog_http import BoundedSession
from tideline.iceberg.table.catalog_tokens import FAULTS, CatalogTokens
from tideline.iceberg.table.idempotency import Remembered
from tideline.iceberg.table.token_grants import TokenGrants
from tideline.iceberg.table.vended_keys import SETTING, Vended, beside_keys
from tideline.secret_values import note_secrets
from tideline.trust.author import Author
from tideline.trust.catalog_access import CatalogAccess
from tideline.trust.catalog_properties import HEADER, OAUTH2_SERVER, URI, admitted
from tideline.trust.foreign_words import quoted
from tideline.trust.server_address import ServerAddress, is_plain_url

_log = logging.getLogger(__name__)
_NAMED_MAX = 10_000
_NAMED_AT_ONCE = 20
_named: set[tuple[str, str]] = set()
_named_lock = threading.Lock()
_DELEGATION = SETTING.removeprefix(HEADER)
_VENDED, _SIGNING, _NONE = "vended-credentials", "remote-signing", "none"
_TRANSACTIONS = Endpoint.from_string("POST /v1/{prefix}/transactions/commit")
check_overridden(
    RestCatalog, "_fetch_config", "_create_session", "_load_file_io", "_config_headers",
    "_refresh_token", "_init_sigv4", "_response_to_table",
)  # fmt: skip


class BoundedRestCatalog(OwnFiles, RestCatalog):
    """A catalog for the author of its address; each answer has `timeout_s`."""

    def __init__(
        self,
        name: str,
        given: Mapping[str, Any],
        access: CatalogAccess,
        timeout_s: float,
        asked: Mapping[str, str] | None = None,
    ) -> None:
        """`asked` are those of the given properties that the caller of this process gave, without
        those of its configuration; None where it gave credentials among them."""
        self._given = dict(given)
        self._access = access
        self.timeout_s = timeout_s
        self._asked = asked
        self._remembered = Remembered()
        self._places: dict[tuple[str, ...], dict[str, object]] = {}
        self._tokens: CatalogTokens | None = None
        self.uses_vended = _asks_for_credentials(name, self._given)
        super().__init__(name, **self._given)

    @property
    def given(self) -> Mapping[str, Any]:
        """The properties that it was opened with, without those of its answers."""
        return self._given

    @property
    def asked(self) -> tuple[tuple[str, str], ...] | None:
        """What opens it in another process with the same configuration; None where that is not
        enough."""
        if self._asked is None or not self._access.is_of_process:
            return None
        return tuple(sorted(self._asked.items()))

    def vended_for(self, identifier: Identifier) -> Vended:
        """What the catalog vends now to reach a table's files. Where the request for that alone
        is refused, as with a token that has ended, the table is loaded, with a new token; first of
        all as well: endpoint and region may be said there alone."""
        place = self._places.get(identifier)
        if place is not None and Capability.V1_LOAD_CREDENTIALS in self._supported_endpoints:
            parts = self._split_identifier_for_path(identifier)
            answer = self._session.get(self.url(Endpoints.load_credentials, prefixed=True, **parts))
            vended = Vended() if not answer.ok else _vended_in(answer.text, place)
            if vended.keys:
                return vended
        io = self.load_table(identifier).io
        return io.vended if isinstance(io, OwnFileIO) else Vended()

    @property
    def commits_tables(self) -> bool:
        """Whether its server says that it commits several tables as one."""
        return _TRANSACTIONS in self._supported_endpoints

    def commit_tables(
        self, changes: Sequence[tuple[Identifier, tuple[Any, ...], tuple[Any, ...]]]
    ) -> None:
        """Commit several tables as one, each with its requirements and updates. Raises what
        `commit_table` raises."""
        requests = [
            CommitTableRequest.model_validate(
                {
                    "identifier": {"namespace": name[:-1], "name": name[-1]},
                    "requirements": requirements,
                    "updates": updates,
                }
            ).model_dump_json()
            for name, requirements, updates in changes
        ]
        body = f'{{"table-changes": [{", ".join(requests)}]}}'.encode()
        url = self.url("transactions/commit")
        response = self._session.post(url, data=body)
        if response.status_code in (401, 419):
            self._refresh_token()
            response = self._session.post(url, data=body)
        try:
            response.raise_for_status()
        except HTTPError as error:
            unknown = dict.fromkeys((500, 502, 504), CommitStateUnknownException)
            _handle_non_200_response(error, {409: CommitFailedException, **unknown})

    def _response_to_table(
        self, identifier_tuple: tuple[str, ...], table_response: TableResponse
    ) -> Table:
        table = super()._response_to_table(identifier_tuple, table_response)
        # PyIceberg would send a token of it with every later request of the session.
        table.config = {}
        if self.uses_vended and isinstance(table.io, OwnFileIO):
            listed = table_response.storage_credentials
            self._places[identifier_tuple] = beside_keys(table_response.config)
            table.io.vended = Vended.of(
                table_response.config, [(entry.prefix, entry.config) for entry in listed]
            )
        return table

    def _fetch_config(self) -> None:
        super()._fetch_config()
        answer = {
            name: value
            for name, value in self.properties.items()
            if name not in self._given or self._given[name] != value
        }
        self.uri = self._given[URI]
        if _is_on_its_server(answer.get(URI), self.uri):
            # Nessie, opened at a branch, answers with the address of all branches and a prefix.
            self.uri = answer.pop(URI)
        found = admitted(answer, Author.CATALOG)
        name_ignored(self.name, found.worth_naming, "an answer of the catalog")
        self.properties = {**self._given, **found.properties}
        separator = self.properties.get(NAMESPACE_SEPARATOR_PROPERTY, DEFAULT_NAMESPACE_SEPARATOR)
        self._namespace_separator = unquote(separator)

    def _create_session(self) -> Session:
        session = self._bounded_session()
        self._config_headers(session)
        session.headers.pop(_DELEGATION, None)
        if self.uses_vended:
            session.headers[_DELEGATION] = _VENDED
        session.bound_headers = self._bound_headers
        self._auth_manager = self._authentication()
        session.auth = AuthManagerAdapter(self._auth_manager)
        if property_as_bool(self._given, SIGV4, False):
            self._init_sigv4(session)
        return session

    def _refresh_token(self) -> None:
        """A token was refused: there will be another one for the next attempt. Raises
        UnauthorizedError where there is none, before the attempt is made."""
        try:
            if self._tokens is not None:
                self._tokens.replace_refused()
        except FAULTS as error:
            message = f"the token has ended, and no other one is to be had: {quoted(error)}"
            raise UnauthorizedError(message) from error

    def _bounded_session(self) -> BoundedSession:
        session = BoundedSession(
            self._given[URI],
            self._given.get(OAUTH2_SERVER),
            self._access,
            self.timeout_s,
            self._remembered,
        )
        _set_certificates(session, self._given.get("ssl"))
        return session

    @property
    def _bound_headers(self) -> tuple[str, ...]:
        return tuple(name[len(HEADER) :] for name in self._given if name.startswith(HEADER))

    def _authentication(self) -> AuthManager:
        asked = self._given.get(AUTH)
        if not asked:
            if self._tokens is None:
                self._tokens = self._new_tokens()
            return self._tokens
        if not self._access.is_of_process:
            raise ConfigError("auth of a catalog is set by the process's own configuration alone")
        kind, program = asked.get("type"), asked.get("impl")
        if not kind or (kind == "custom") != bool(program):
            message = "auth of a catalog needs a type, and one that is custom an impl"
            raise ConfigError(message, value=self.name)
        _note_basic(asked.get(kind))
        return AuthManagerFactory.create(program or kind, asked.get(kind, {}))

    def _new_tokens(self) -> CatalogTokens:
        address = self._given.get(OAUTH2_SERVER) or self.url(Endpoints.get_token, prefixed=False)
        session = self._bounded_session()
        self._config_headers(session)
        session.headers.pop(_DELEGATION, None)
        session.headers["Content-Type"] = "application/x-www-form-urlencoded"
        if ServerAddress.of(address) != ServerAddress.of(self._given[URI]):
            for name in self._bound_headers:
                session.headers.pop(name, None)
        session.is_for_tokens = True
        # Without it a user of .netrc stands in the place of what a request shows.
        session.auth = AuthManagerAdapter(NoopAuthManager())

        def answer(form: dict[str, str], authorization: str | None) -> object:
            shown = {} if authorization is None else {"Authorization": authorization}
            response = session.post(address, data=form, headers=shown)
            try:
                response.raise_for_status()
            except HTTPError as error:
                _handle_non_200_response(error, {400: OAuthError, 401: OAuthError})
            return response.json()

        return CatalogTokens(self.name, TokenGrants.of(self._given), answer)


def _is_on_its_server(answered: object, uri: str) -> bool:
    """Whether an answer names another path of the server that it came from."""
    return (
        isinstance(answered, str)
        and is_plain_url(answered)
        and ".." not in answered
        and ServerAddress.of(answered) == ServerAddress.of(uri)
    )


def _vended_in(text: str, place: Mapping[str, object]) -> Vended:
    """The keys of an answer, for the place that the table's own answer has named."""
    listed = LoadCredentialsResponse.model_validate_json(text).storage_credentials
    return Vended.of(place, [(entry.prefix, entry.config) for entry in listed])


def _asks_for_credentials(catalog: str, given: Mapping[str, Any]) -> bool:
    """Whether the catalog is asked to vend credentials. Raises ConfigError."""
    found = [text for name, text in given.items() if name.lower() == SETTING.lower()]
    asked = {word.strip().lower() for text in found for word in str(text).split(",")} or {_VENDED}
    if asked == {_SIGNING}:
        message = (
            f"a catalog that signs requests to S3 itself is not supported: set {SETTING} to "
            f"{_VENDED}, or to {_NONE} for credentials of your own"
        )
        raise ConfigError(message, value=catalog)
    if not asked <= {_VENDED, _SIGNING} and asked != {_NONE}:
        raise ConfigError(f"{SETTING} is {_VENDED} or {_NONE}", value=quoted(", ".join(asked)))
    return _VENDED in asked


def name_ignored(catalog: str, names: tuple[str, ...], source: str) -> None:
    """Say once in the life of this process that properties were not taken."""
    with _named_lock:
        new = [name for name in names if (catalog, name) not in _named]
        _named.update((catalog, name) for name in new[: _NAMED_MAX - len(_named)])
    if not new:
        return
    shown = ", ".join(map(quoted, new[:_NAMED_AT_ONCE]))
    more = f" and {len(new) - _NAMED_AT_ONCE} more" if len(new) > _NAMED_AT_ONCE else ""
    _log.warning(
        "catalog %s: not taken from %s, which may not set it: %s%s", catalog, source, shown, more
    )


def _set_certificates(session: Session, ssl: Any) -> None:
    if not isinstance(ssl, Mapping):
        return
    if ssl.get("cabundle") is not None:
        session.verify = ssl["cabundle"]
    client = ssl.get("client") or {}
    if client.get("cert"):
        session.cert = (client["cert"], client["key"]) if client.get("key") else client["cert"]


def _note_basic(given: Any) -> None:
    if isinstance(given, Mapping) and "password" in given:
        login = f"{given.get('username', '')}:{given['password']}"
        note_secrets([cast(str, given["password"]), base64.b64encode(login.encode()).decode()])
