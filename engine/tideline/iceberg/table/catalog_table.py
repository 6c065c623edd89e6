"""A table that a REST or SQL catalog keeps, through PyIceberg's catalog interface.

The catalog holds the pointer to the newest metadata and applies updates itself, if our requirements
hold. Its answers are not trusted: a client that sent a request twice gets a conflict with itself.
So after every answer but success the table is loaded again:

1. it shows our change: committed;
2. the branch has left the snapshot that our change requires: it never can be committed any more;
3. the catalog refused for certain: not committed;
4. anything else is asked again as often as `commit.status-check.*` says, and is then unknown.

Needs the extra `iceberg`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    TableAlreadyExistsError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.table import Table

from tideline.clock import Clock, SystemClock
from tideline.errors import (
    ConfigError,
    StorageUnavailableError,
    TableNotFoundError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.iceberg.metadata.metadata_update import (
    AddSnapshot,
    MetadataUpdate,
    RemoveSnapshots,
    Requirement,
    unmet,
)
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.catalog_update import as_requirement, as_update, metadata_document
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.retry import RetryPolicy
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    Loaded,
    Unknown,
)
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore

TIMEOUT_S = 60.0
_TIMEOUT_PROPERTY = "tideline.timeout-s"
_PROXY_PROPERTY = "tideline.proxy-url"
_SECRET_WORDS = ("key", "secret", "token", "password", "credential", "auth", "signature")
_REFUSALS = (
    CommitFailedException,
    BadRequestError,
    ValidationError,
    ValueError,
    NotImplementedError,
)


class _PunctualRestCatalog(RestCatalog):
    """PyIceberg's, which waits for an answer for ever."""

    def __init__(self, name: str, **properties: str) -> None:
        # Not a property of the catalog: its answers change those.
        self._proxy_url = properties.pop(_PROXY_PROPERTY, None)
        super().__init__(name, **properties)

    def _create_session(self):  # type: ignore[no-untyped-def]
        session = super()._create_session()
        if self._proxy_url is not None:
            session.trust_env = False
            session.proxies = {"http": self._proxy_url, "https": self._proxy_url}
        timeout_s = float(self.properties.get(_TIMEOUT_PROPERTY, TIMEOUT_S))
        timed = partial(_send, session.send, timeout_s)
        session.send = timed  # type: ignore[assignment, method-assign]
        return session


def _send(
    send: Callable[..., object], timeout_s: float, request: object, **given: object
) -> object:
    return send(request, **{**given, "timeout": given.get("timeout") or timeout_s})


AVAILABLE_CATALOGS[CatalogType.REST] = lambda name, given: _PunctualRestCatalog(name, **given)


def open_catalog(
    name: str,
    properties: Mapping[str, str] | None = None,
    *,
    credentials: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
    proxy_url: str | None = None,
) -> Catalog:
    """A catalog as PyIceberg's configuration and environment (`PYICEBERG_CATALOG__<NAME>__...`)
    describe it, with `properties` such as `uri`, `type` and `warehouse` on top, and `credentials`
    for a process that keeps those of several catalogs. A REST catalog has `timeout_s` for each
    answer, and is reached by way of the proxy.

    Raises StorageUnavailableError when it cannot be reached, ConfigError when it cannot be made
    out, and for properties that are credentials: they only ever come from the environment or that
    configuration.
    """
    given = dict(properties or {})
    secret = next(
        (one for one in given if any(word in one.lower() for word in _SECRET_WORDS)), None
    )
    if secret is not None:
        message = f"catalog property {secret!r} looks like a credential: set it in the environment"
        raise ConfigError(message)
    try:
        ours = {_TIMEOUT_PROPERTY: str(timeout_s)}
        if proxy_url is not None:
            ours[_PROXY_PROPERTY] = proxy_url
        return load_catalog(name, **{**given, **(credentials or {}), **ours})
    except OSError as error:
        # The text of the client's error has addresses of objects in it.
        message = f"the catalog cannot be reached ({type(error).__name__})"
        raise StorageUnavailableError(message, value=name) from error
    except Exception as error:  # PyIceberg and the catalog's client raise any exception
        raise ConfigError(f"the catalog cannot be opened: {error}", value=name) from error


@contextmanager
def asking_catalog(**subject: str) -> Iterator[None]:
    """Raises StorageUnavailableError about `subject` for whatever a catalog's client raises."""
    try:
        yield
    except TidelineError:
        raise
    except OSError as error:
        # The text of the client's error has addresses of objects in it.
        message = f"the catalog does not answer ({type(error).__name__})"
        raise StorageUnavailableError(message, **subject) from error
    except Exception as error:  # it may be any exception
        message = f"the catalog does not answer: {error}"
        raise StorageUnavailableError(message, **subject) from error


class CatalogTable:
    """TableOperations of the table `identifier` (`namespace.name`) of a catalog."""

    def __init__(
        self,
        catalog: Catalog,
        identifier: str | tuple[str, ...],
        *,
        storage_options: Mapping[str, str | bool] | None = None,
        clock: Clock | None = None,
        open_store: Callable[[StoreLocation], ObjectStore] | None = None,
    ) -> None:
        """`open_store` opens the table's own folder, for those who have other credentials than the
        environment's."""
        self._open_store = open_store or StoreLocation.open
        self._catalog = catalog
        self._identifier = identifier
        self._storage_options = storage_options
        self._clock = clock or SystemClock()
        self._table: Table | None = None
        self._io: FileIO | None = None

    @property
    def io(self) -> FileIO:
        if self._io is None:
            self.load()
        assert self._io is not None
        return self._io

    def load(self) -> Loaded:
        with self._asking():
            table = self._catalog.load_table(self._identifier)
            document = metadata_document(table.metadata)
        metadata = TableMetadata.of(document, path=table.metadata_location)
        self._table = table
        if self._io is None or self._io.recorded != metadata.location:
            location = StoreLocation.of(metadata.location, self._storage_options)
            store = self._open_store(location)
            self._io = FileIO(location, metadata.location, {location: store})
        return Loaded(metadata, table.metadata_location)

    def register(self, store: ObjectStore, path: str, metadata: TableMetadata) -> None:
        """Make the catalog keep the new table `metadata`, unless it has one of this name already.

        Its first metadata file is `path` in `store`, the table's folder. A missing namespace is
        created. Raises UnsupportedTableError when the catalog refuses, StorageUnavailableError:
        then it is unknown whether the catalog has it, and `load` shows it.
        """
        store.put(path, metadata.to_bytes())
        with self._asking():
            try:
                namespace = Catalog.namespace_from(self._identifier)
                if not self._catalog.namespace_exists(namespace):
                    self._catalog.create_namespace_if_not_exists(namespace)
                self._catalog.register_table(self._identifier, f"{metadata.location}/{path}")
            except TableAlreadyExistsError:
                # It may be ours, from a request that was sent twice.
                if self.load().metadata.table_uuid != metadata.table_uuid:
                    DeleteScope(store, "taking back a metadata file").remove(path)
            except _REFUSALS as error:
                message = f"the catalog refuses the table: {error}"
                raise UnsupportedTableError(message, table=self._name) from error

    def drop(self) -> None:
        """Have the catalog forget the table, whose files stay.

        Raises TableNotFoundError and StorageUnavailableError.
        """
        with self._asking():
            self._catalog.drop_table(self._identifier)

    def commit(
        self, base: Loaded, requirements: Iterable[Requirement], updates: Iterable[MetadataUpdate]
    ) -> CommitOutcome:
        asked, changes = tuple(requirements), tuple(updates)
        table = self._table
        if table is None:
            raise ValueError("the metadata was not loaded from this table")
        version = base.metadata.format_version
        try:
            response = self._catalog.commit_table(
                table,
                tuple(map(as_requirement, asked)),
                tuple(as_update(change, version) for change in changes),
            )
            document = metadata_document(response.metadata)
        except NoSuchTableError as error:
            raise self._missing() from error
        except (ForbiddenError, UnauthorizedError) as error:
            message = f"the catalog denies access: {error}"
            raise StorageUnavailableError(message, table=self._name) from error
        except Exception as error:  # a catalog's client raises any exception
            return self._settle(base, asked, changes, error)
        metadata = TableMetadata.of(document, path=response.metadata_location)
        return Committed(Loaded(metadata, response.metadata_location))

    def _settle(
        self,
        base: Loaded,
        requirements: tuple[Requirement, ...],
        updates: tuple[MetadataUpdate, ...],
        error: Exception,
    ) -> CommitOutcome:
        """What became of a commit that was not reported as done."""
        is_refused = isinstance(error, _REFUSALS)
        for _ in RetryPolicy.of_status_checks(base.metadata.properties).attempts(self._clock):
            try:
                now = self.load()
            except TidelineError:
                continue
            if _shows(now.metadata, updates):
                return Committed(now)
            reason = unmet(now.metadata, requirements)
            if reason is not None:
                return Conflicted(reason)
            if is_refused:
                if now.metadata_location == base.metadata_location and not isinstance(
                    error, CommitFailedException
                ):
                    message = f"the catalog rejects the change: {error}"
                    raise UnsupportedTableError(message, table=self._name) from error
                return Conflicted(str(error))
        return Unknown(f"the catalog may have committed: {error!r}")

    @contextmanager
    def _asking(self) -> Iterator[None]:
        with asking_catalog(table=self._name):
            try:
                yield
            except NoSuchTableError as error:
                raise self._missing() from error

    def _missing(self) -> TableNotFoundError:
        return TableNotFoundError("the catalog has no such table", table=self._name)

    @property
    def _name(self) -> str:
        name = self._identifier
        return f"{self._catalog.name}.{name if isinstance(name, str) else '.'.join(name)}"


def _shows(metadata: TableMetadata, updates: Iterable[MetadataUpdate]) -> bool:
    """Whether the metadata holds the change, recognised by snapshot ids, which are never reused."""
    recognisable = [one for one in updates if isinstance(one, AddSnapshot | RemoveSnapshots)]
    return bool(recognisable) and all(
        metadata.snapshot(one.snapshot.snapshot_id) is not None
        if isinstance(one, AddSnapshot)
        else all(metadata.snapshot(snapshot_id) is None for snapshot_id in one.snapshot_ids)
        for one in recognisable
    )
