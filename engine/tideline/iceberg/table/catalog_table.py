"""A table that a REST or SQL catalog keeps, through PyIceberg's catalog interface.

The catalog holds the pointer to the newest metadata and applies updates itself, if our requirements
hold. Its answers are not trusted: a client that sent a request twice gets a conflict with itself.
So after every answer but success the table is loaded again:

1. another table has the name: the one that we changed may have been renamed after our change;
2. it shows our change: committed;
3. what our change requires holds no more, and the change would have left a trace or was refused: it
   never can be committed any more;
4. the catalog refused for certain, or had no time (429), or has no such table (404): not committed;
5. anything else is asked again as often as `commit.status-check.*` says, and is then unknown.

Needs the extra `iceberg`.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from pydantic import ValidationError as UnreadableAnswer
from pyiceberg.catalog import Catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.table import Table

from tideline.clock import Clock, SystemClock
from tideline.errors import (
    ConfigError,
    ConflictError,
    StorageUnavailableError,
    TableExistsError,
    TableNotFoundError,
    TidelineError,
    UnsupportedTableError,
)
from tideline.iceberg.metadata.metadata_update import MetadataUpdate, Requirement, unmet
from tideline.iceberg.metadata.shown_updates import is_shown, leaves_trace
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.metadata.table_property import METADATA_PATH
from tideline.iceberg.table.catalog_config import catalog_arguments
from tideline.iceberg.table.catalog_files import OwnFileIO, OwnFiles
from tideline.iceberg.table.catalog_name import address_variable
from tideline.iceberg.table.catalog_opening import CLIENT_FAULTS, asking_catalog, words_of
from tideline.iceberg.table.catalog_rest import BoundedRestCatalog
from tideline.iceberg.table.catalog_update import (
    as_requirement,
    as_update,
    definition_of,
    metadata_document,
)
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.metadata_place import AnsweringCatalog, MetadataPlace
from tideline.iceberg.table.retry import status_checks
from tideline.iceberg.table.s3_properties import S3Properties
from tideline.iceberg.table.table_identity import UNSEEN, TableIdentity
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    Loaded,
    Replaced,
    Unknown,
)
from tideline.iceberg.table.vended_access import VendedAccess
from tideline.iceberg.table.vended_keys import Vended
from tideline.iceberg.table.vended_origin import OpenedOrigin
from tideline.storage.delete_scope import DeleteScope
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.storage.s3.identity import implicit_identity
from tideline.trust.catalog_access import OF_PROCESS, CatalogAccess
from tideline.trust.foreign_words import quoted

REFUSALS = (
    CommitFailedException,
    BadRequestError,
    ValidationError,
    ValueError,
    NotImplementedError,
)
_NO_SUCH_TABLE, _UNPROCESSABLE = 404, 422


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
        access: CatalogAccess = OF_PROCESS,
        known_place: str | None = None,
    ) -> None:
        """`open_store` opens the table's own folder, for those who have other credentials than the
        environment's. `known_place` is one that configuration names, not the catalog: its
        warehouse, or the table's folder."""
        self._catalog = catalog
        self._identifier = identifier
        self._clock = clock or SystemClock()
        self._access = access
        is_server = isinstance(catalog, RestCatalog)
        given = _given_to(catalog)
        self._s3 = S3Properties.of(given) if access.is_of_process else S3Properties()
        self._place = MetadataPlace(
            AnsweringCatalog(catalog.name, given, is_server),
            storage_options,
            open_store or StoreLocation.open,
            access,
            known_place,
            self._s3,
        )
        if isinstance(catalog, OwnFiles):
            catalog.files = self._place
        self._table: Table | None = None
        self._io: FileIO | None = None
        self._vended: VendedAccess | None = None
        self._identity: TableIdentity = UNSEEN

    @property
    def catalog(self) -> Catalog:
        """The catalog that keeps the table."""
        return self._catalog

    @property
    def identifier(self) -> tuple[str, ...]:
        """The parts of the table's name there."""
        return Catalog.identifier_to_tuple(self._identifier)

    @property
    def io(self) -> FileIO:
        if self._io is None:
            self.load()
        assert self._io is not None
        return self._io

    @property
    def arguments(self) -> str:
        catalog = catalog_arguments(self._catalog.name, _given_to(self._catalog))
        return shlex.join((self._dotted, *catalog))

    def load(self) -> Loaded:
        with self._asking():
            table = self._catalog.load_table(self._identifier)
            document = metadata_document(table.metadata)
        metadata = TableMetadata.of(document, path=table.metadata_location)
        self._identity = self._identity.confirmed(metadata, table=self._name)
        self._table = table
        if self._io is None or self._io.recorded != metadata.location:
            self._place.check(metadata.location, table.metadata_location)
            location, store = self._place.opened(metadata.location)
            self._io = self._files(table, metadata.location, location, store)
        elif self._vended is not None and (vended := _vended_with(table)).keys:
            self._vended.take(vended)
        return Loaded(metadata, table.metadata_location)

    @property
    def places_tables(self) -> bool:
        """Whether the catalog is a server that creates tables, and says where they go."""
        return isinstance(self._catalog, RestCatalog)

    def create(self, wanted: TableMetadata) -> None:
        """Have the server create the empty table `wanted`, in a place of its choice: one request.

        Dying before it leaves at most a namespace, dying after it the table. Raises
        TableExistsError, UnsupportedTableError when the catalog refuses or makes another version of
        it, StorageUnavailableError: then it is unknown whether the catalog has it, and `load` shows
        it.
        """
        with self._asking():
            try:
                self._make_namespace()
                self._catalog.create_table(self._identifier, **definition_of(wanted))
            except TableAlreadyExistsError as error:
                message = "there is a table already"
                raise TableExistsError(message, table=self._name) from error
            except UnreadableAnswer:
                raise
            except REFUSALS as error:
                message = f"the catalog refuses the table: {quoted(error)}"
                raise UnsupportedTableError(message, table=self._name) from error
        version = self.load().metadata.format_version
        if version != wanted.format_version:
            message = f"the catalog made the table of another version than {wanted.format_version}"
            raise UnsupportedTableError(message, table=self._name, value=version)

    def register(self, store: ObjectStore, path: str, metadata: TableMetadata) -> None:
        """Make the catalog keep the new table `metadata`, unless it has one of this name already.

        Its first metadata file is `path` in `store`, the table's folder. A missing namespace is
        created. Raises UnsupportedTableError when the catalog refuses, StorageUnavailableError:
        then it is unknown whether the catalog has it, and `load` shows it.
        """
        store.put(path, metadata.to_bytes())
        with self._asking():
            try:
                self._make_namespace()
                self._catalog.register_table(self._identifier, f"{metadata.location}/{path}")
            except TableAlreadyExistsError:
                # It may be ours, from a request that was sent twice.
                if self.load().metadata.table_uuid != metadata.table_uuid:
                    DeleteScope(store, "taking back a metadata file").remove(path)
            except UnreadableAnswer:
                raise
            except REFUSALS as error:
                message = f"the catalog refuses the table: {quoted(error)}"
                raise UnsupportedTableError(message, table=self._name) from error

    def drop(self) -> None:
        """Have the catalog forget the table, whose files stay.

        Raises TableNotFoundError, ConflictError when another table has the name, and
        StorageUnavailableError.
        """
        self.load()
        with self._asking():
            self._catalog.drop_table(self._identifier)

    def commit(
        self, base: Loaded, requirements: Iterable[Requirement], updates: Iterable[MetadataUpdate]
    ) -> CommitOutcome:
        asked, changes = tuple(requirements), tuple(updates)
        if not self._place.catalog.is_server:
            self.io.require_writes()
        table = self._table
        if table is None:
            raise ValueError("the metadata was not loaded from this table")
        version = base.metadata.format_version
        folder = base.metadata.properties.get(METADATA_PATH)
        if folder:
            self._place.check(folder, base.metadata_location)
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
            message = f"the catalog denies access: {quoted(error)}"
            raise StorageUnavailableError(message, table=self._name) from error
        except TooManyRequestsError as error:
            message = "the catalog had no time for the commit, which did not take place: repeat it"
            raise StorageUnavailableError(message, table=self._name) from error
        except CLIENT_FAULTS as error:
            if status_of(error) == _NO_SUCH_TABLE:
                raise self._missing() from error
            return self._settle(base, asked, changes, error)
        metadata = TableMetadata.of(document, path=response.metadata_location)
        other = self._identity.replaced_by(metadata)
        if other is not None:
            return Replaced(other)
        return Committed(Loaded(metadata, response.metadata_location))

    def _make_namespace(self) -> None:
        namespace = Catalog.namespace_from(self._identifier)
        if not self._catalog.namespace_exists(namespace):
            self._catalog.create_namespace_if_not_exists(namespace)

    def _settle(
        self,
        base: Loaded,
        requirements: tuple[Requirement, ...],
        updates: tuple[MetadataUpdate, ...],
        error: BaseException,
    ) -> CommitOutcome:
        """What became of a commit that was not reported as done."""
        # What is no answer that the client reads is a ValueError, too.
        is_refused = not isinstance(error, UnreadableAnswer) and (
            isinstance(error, REFUSALS) or status_of(error) == _UNPROCESSABLE
        )
        for _ in status_checks(base.metadata.properties).attempts(self._clock):
            try:
                now = self.load()
            except ConflictError as replaced:
                return Replaced(replaced.message)
            except TidelineError:
                continue
            if is_shown(now.metadata, updates):
                return Committed(now)
            reason = unmet(now.metadata, requirements)
            if reason is not None and (is_refused or leaves_trace(updates)):
                return Conflicted(reason)
            if is_refused:
                if now.metadata_location == base.metadata_location and not isinstance(
                    error, CommitFailedException
                ):
                    message = f"the catalog rejects the change: {quoted(error)}"
                    raise UnsupportedTableError(message, table=self._name) from error
                return Conflicted(quoted(error))
        reason = f"the catalog may have committed: {type(error).__name__}: {words_of(error)}"
        return Unknown(reason, arguments=self.arguments)

    def _files(
        self, table: Table, recorded: str, location: StoreLocation, own: ObjectStore
    ) -> FileIO:
        """The table's files: with what the catalog vends where it does, else by its own store."""
        vended, catalog = _vended_with(table), self._catalog
        self._vended = None
        if location.scheme == "s3" and vended.signs_requests and not vended.keys:
            _refuse_without_own(self._access, table=self._name)
        if location.scheme != "s3":
            return FileIO(location, recorded, {location: own})
        if not vended.keys:
            self._place.require_identity()
            return FileIO(location, recorded, {location: own}, bars=self._s3.bars)
        assert isinstance(catalog, BoundedRestCatalog)
        origin = OpenedOrigin(catalog, self.identifier)
        self._vended = VendedAccess(origin)
        self._vended.take(vended)
        stores = {location: self._vended.store(location, own)}
        bars = self._s3.bars.beside(self._vended.bars(location.uri))
        return FileIO(location, recorded, stores, vended=self._vended, bars=bars)

    @contextmanager
    def _asking(self) -> Iterator[None]:
        with asking_catalog(table=self._name):
            try:
                yield
            except NoSuchTableError as error:
                raise self._missing() from error

    def _missing(self) -> TableNotFoundError:
        message = "the catalog has no such table"
        # An SQL catalog, whose package may not be there.
        if hasattr(self._catalog, "engine"):
            message += (
                "; an SQL catalog shows what was written under its own name, here "
                f"{self._catalog.name}: for tables of another name give that, with the address in "
                f"{address_variable('NAME')}"
            )
        return TableNotFoundError(message, table=self._name)

    @property
    def _name(self) -> str:
        return f"{self._catalog.name}.{self._dotted}"

    @property
    def _dotted(self) -> str:
        name = self._identifier
        return name if isinstance(name, str) else ".".join(name)


def status_of(error: BaseException) -> int | None:
    """The status of the answer that an error of PyIceberg's was made of."""
    status = getattr(getattr(error.__cause__, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _vended_with(table: Table) -> Vended:
    return table.io.vended if isinstance(table.io, OwnFileIO) else Vended()


def _refuse_without_own(access: CatalogAccess, *, table: str) -> None:
    """Raise UnsupportedTableError for a process that has no credentials, where the catalog vends
    none either but would sign requests."""
    if not access.is_of_process:
        return
    try:
        implicit_identity()
    except ConfigError as error:
        message = (
            "the catalog vends no credentials and would sign each request to S3 itself "
            "(s3.remote-signing-enabled), which is not supported: have it vend credentials, or set "
            "your own, as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
        raise UnsupportedTableError(message, table=table) from error


def _given_to(catalog: Catalog) -> Mapping[str, str]:
    """What a catalog was opened with; nothing of a server's, where its answers are among it."""
    if isinstance(catalog, BoundedRestCatalog):
        return catalog.given
    return {} if isinstance(catalog, RestCatalog) else catalog.properties
