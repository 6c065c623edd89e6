"""From a LakeTable object to a resolved table, or the reason why it cannot be resolved.

1. The spec is parsed. If it is not valid, the last valid one, kept in status, stays in force.
2. The LakeStores it names are found, and the Secrets they name.
3. No other LakeTable may hold its places, see claims.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tideline.clock import Clock
from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.iceberg.table.found_table import FoundTable
from tideline.ingest.operation.operation import Place
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.trust.author import Author
from tideline.trust.catalog_access import CatalogAccess
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.catalog_secrets import CatalogSecrets
from tideline_operator.controller.claims import Claims, may_read, taken_message
from tideline_operator.controller.connections import LIMITS, Connections, SecretProblemError
from tideline_operator.controller.endpoints import Endpoint, Endpoints, catalog_endpoint
from tideline_operator.controller.locations import Locations, Taken
from tideline_operator.controller.namespace_access import NOT_OPEN, NamespaceAccess
from tideline_operator.controller.object_cache import ObjectCache, key_of
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.observed import LOCATION_TAKEN
from tideline_operator.launch.driver_job import CA_BUNDLE_PATH
from tideline_operator.observe.iceberg_source import IcebergSource, open_source
from tideline_operator.observe.warehouse import list_warehouse
from tideline_operator.resources.lake_store import LakeStore, LakeStoreSpec
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.parsing import parse_object
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.resolving import resolve_table, store_names
from tideline_operator.resources.table_rules import S3_SCHEMES


@dataclass(frozen=True, slots=True)
class Declared:
    """The spec in force, None for `table` when there is none. `problem` says why the newest one is
    not in force. `placed` is the last valid one without its properties, where only these are
    refused now: it still claims its places."""

    table: LakeTable | None
    problem: str | None = None
    placed: LakeTable | None = None


@dataclass(frozen=True, slots=True)
class Unresolved:
    """Something that the table names is missing: `reason` is one word. `may_heal` without a change
    of anything that is watched."""

    reason: str
    message: str
    may_heal: bool = False


def declared_table(item: Manifest, last_valid: Mapping[str, object]) -> Declared:
    """The spec of a LakeTable object, or the last valid one."""
    try:
        return Declared(parse_object(LakeTable, item))
    except ConfigError as error:
        if last_valid:
            try:
                kept = parse_object(LakeTable, {**item, "spec": last_valid})
                return Declared(kept, error.message)
            except ConfigError:
                return Declared(None, error.message, _without_properties(item, last_valid))
        return Declared(None, error.message)


def _without_properties(item: Manifest, spec: Mapping[str, object]) -> LakeTable | None:
    try:
        return parse_object(LakeTable, {**item, "spec": {**spec, "properties": {}}})
    except ConfigError:
        return None


class TableSource:
    """Resolves tables by the caches. `wake` is called with each table to be looked at again."""

    def __init__(
        self,
        stores: ObjectCache,
        connections: Connections,
        catalogs: CatalogSecrets,
        locations: Locations,
        endpoints: Endpoints,
        wake: Callable[[Key], None],
        clock: Clock,
        access: NamespaceAccess,
        *,
        allows_local: bool = False,
    ) -> None:
        self.claims = Claims(locations, clock, wake)
        self._access = access
        self._stores = stores
        self._connections = connections
        self._catalogs = catalogs
        self._endpoints = endpoints
        self._allows_local = allows_local
        self._access = CatalogAccess(Author.RESOURCE, allows_local=allows_local)
        self._specs: dict[Key, tuple[object, LakeStoreSpec]] = {}

    def closed(self, namespace: str) -> Unresolved | None:
        """Why nothing can be done in a namespace; None where the operator is let in.

        Raises ApiUnavailableError.
        """
        reason = self._access.closed(namespace)
        return None if reason is None else Unresolved(NOT_OPEN, reason, may_heal=True)

    def resolve(self, item: Manifest, table: LakeTable) -> ResolvedTable | Unresolved:
        """`table`, which is what `item` declares, with everything it names.

        Raises ApiUnavailableError when a Secret cannot be read now.
        """
        return self._resolve(table, lambda resolved: self.claims.claim(item, resolved))

    def resolve_place(self, place: LakeTable) -> ResolvedTable | Unresolved:
        """The place of a LakeCatalog, which claims nothing: its tables do. Raises as `resolve`."""
        return self._resolve(place, lambda _: None)

    def list_place(self, place: ResolvedTable) -> tuple[FoundTable, ...]:
        """The tables at the place of a LakeCatalog.

        Raises ConfigError, StorageUnavailableError, SecretProblemError, ApiUnavailableError.
        """
        catalog = catalog_endpoint(place)
        if catalog is None:
            return list_warehouse(place, self.open_store)
        namespace = place.resource.metadata.namespace
        credentials = self._catalogs.credentials(namespace, place.spec.catalog)
        with self._asking(catalog):
            return list_warehouse(
                place,
                self.open_store,
                credentials=credentials,
                timeout_s=LIMITS.read_timeout_s,
                access=self._access,
            )

    def _resolve(
        self, table: LakeTable, claim: Callable[[ResolvedTable], Taken | None]
    ) -> ResolvedTable | Unresolved:
        namespace = table.metadata.namespace
        closed = self.closed(namespace)
        if closed is not None:
            return closed
        stores = self._lake_stores(namespace, store_names(table.spec))
        if isinstance(stores, Unresolved):
            return stores
        try:
            resolved = resolve_table(table, stores, ca_bundle=CA_BUNDLE_PATH)
        except ConfigError as error:
            return Unresolved("LocationInvalid", error.message)
        landings = (*resolved.landings.values(), *resolved.moved_to.values())
        places = (resolved.location, *landings)
        remote = [place for place in places if place.uri]
        if not self._allows_local and not all(at.uri.startswith(S3_SCHEMES) for at in remote):
            message = "spec: pods only reach s3:// locations; name a LakeStore and s3://bucket/..."
            return Unresolved("LocationInvalid", message)
        taken = claim(resolved)
        if taken is not None and not taken.is_foreign:
            return refused_claim(taken)
        try:
            if resolved.stores or any(place.uri.startswith(S3_SCHEMES) for place in remote):
                self._connections.connect(namespace, resolved.stores.values())
            self._catalogs.credentials(namespace, table.spec.catalog)
        except SecretProblemError as error:
            return Unresolved(error.reason, error.message, may_heal=True)
        return resolved if taken is None else self._refused(resolved, taken)

    def secret_versions(self, table: ResolvedTable) -> tuple[str, ...]:
        """The versions of the Secrets that a resolved table's pods read."""
        namespace = table.resource.metadata.namespace
        return (
            *self._connections.versions(namespace, table.stores.values()),
            *self._catalogs.versions(namespace, table.spec.catalog),
        )

    def hold(self, item: Manifest, table: LakeTable) -> None:
        """Claim the places of a table without a valid spec, so that no other table takes them."""
        stores = self._lake_stores(table.metadata.namespace, store_names(table.spec))
        if isinstance(stores, Unresolved):
            return
        try:
            self.claims.claim(item, resolve_table(table, stores, ca_bundle=CA_BUNDLE_PATH))
        except ConfigError:
            return

    def open_store(self, table: ResolvedTable, place: Place) -> ObjectStore:
        """A place of a resolved table, with the credentials of its LakeStore."""
        options = {name: text for name, text in place.options if name != "ca_bundle"}
        location = StoreLocation.of(place.uri, options)
        if location.scheme != "s3":
            return location.open()
        namespace = table.resource.metadata.namespace
        connection = self._connections.connect(namespace, table.stores.values(), may_be_old=True)
        return location.open(connection)

    def open_iceberg(
        self,
        table: ResolvedTable,
        open_store: Callable[[ResolvedTable, Place], ObjectStore],
        clock: Clock,
    ) -> IcebergSource:
        """The metadata of an Iceberg table, its catalog with the credentials the table names."""
        namespace = table.resource.metadata.namespace
        credentials = self._catalogs.credentials(namespace, table.spec.catalog)
        catalog = catalog_endpoint(table)
        if catalog is None:
            return open_source(table, open_store, clock, credentials, access=self._access)
        with self._asking(catalog):
            timeout_s = LIMITS.read_timeout_s
            return open_source(table, open_store, clock, credentials, timeout_s, self._access)

    @contextmanager
    def _asking(self, catalog: Endpoint) -> Iterator[None]:
        """A request to a catalog, unless it is left alone. Raises StorageUnavailableError."""
        reason = self._endpoints.refusal(catalog)
        if reason is not None:
            raise StorageUnavailableError(reason)
        try:
            yield
        except TidelineError as error:
            is_unanswered = isinstance(error.__cause__, OSError)
            self._endpoints.note(catalog, str(error) if is_unanswered else None)
            raise
        self._endpoints.note(catalog, None)

    def _refused(self, table: ResolvedTable, taken: Taken) -> Unresolved:
        """A place is another namespace's: only who may read there is told so."""
        own = taken.own
        places = (table.location, *table.landings.values(), *table.moved_to.values())
        place = next((one for one in places if one.uri == own.shown), table.location)
        error = may_read(table, place, self.open_store)
        if error is not None:
            return Unresolved(error.kind, str(error), may_heal=True)
        return refused_claim(taken)

    def _lake_stores(
        self, namespace: str, names: tuple[str, ...]
    ) -> dict[str, LakeStoreSpec] | Unresolved:
        found: dict[str, LakeStoreSpec] = {}
        for name in names:
            item = self._stores.get((namespace, name))
            if item is None:
                known = sorted(
                    n for where, n in map(key_of, self._stores.all()) if where == namespace
                )
                message = (
                    f"spec.storeRef: there is no LakeStore {name!r} in namespace {namespace}; "
                    f"existing ones: {', '.join(known) or 'none'}"
                )
                return Unresolved("StoreMissing", message)
            try:
                found[name] = self._spec_of(item)
            except ConfigError as error:
                return Unresolved("StoreInvalid", f"LakeStore {name}: {error.message}")
        return found

    def _spec_of(self, item: Manifest) -> LakeStoreSpec:
        """The spec of a LakeStore, parsed once for each of its generations."""
        key = key_of(item)
        version = item["metadata"].get("uid"), item["metadata"].get("generation")
        known = self._specs.get(key)
        if known is None or known[0] != version:
            known = self._specs[key] = version, parse_object(LakeStore, item).spec
        return known[1]


def refused_claim(taken: Taken) -> Unresolved:
    """What is in the way of a table's claim, as the reason why it cannot be resolved."""
    return Unresolved(LOCATION_TAKEN, taken_message(taken))
