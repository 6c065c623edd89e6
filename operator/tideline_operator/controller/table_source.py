"""From a LakeTable object to a resolved table, or the reason why it cannot be resolved.

1. The spec is parsed. If it is not valid, the last valid one, kept in status, stays in force.
2. The LakeStores it names are found, and the Secrets they name.
3. No other LakeTable may hold its places, see locations.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tideline.clock import Clock
from tideline.errors import ConfigError, StorageUnavailableError, TidelineError
from tideline.iceberg.table.found_table import FoundTable
from tideline.ingest.landing.taken_policy import TakenPolicy
from tideline.ingest.operation.operation import Place
from tideline.storage.egress_proxy import EgressProxy
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.catalog_egress import CatalogEgress
from tideline_operator.controller.catalog_secrets import CatalogSecrets
from tideline_operator.controller.connections import LIMITS, Connections, SecretProblemError
from tideline_operator.controller.endpoints import Endpoint, Endpoints, catalog_endpoint
from tideline_operator.controller.locations import ClaimedPlace, Locations, TableClaim, Taken
from tideline_operator.controller.object_cache import ObjectCache, key_of
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.addresses import address_of
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
        *,
        egress: EgressProxy | None = None,
        allows_local: bool = False,
    ) -> None:
        """Requests to catalogs leave the process by way of `egress`."""
        self._stores = stores
        self._connections = connections
        self._catalogs = catalogs
        self._locations = locations
        self._endpoints = endpoints
        self._wake = wake
        self._egress = egress
        self._allows_local = allows_local
        self._specs: dict[Key, tuple[object, LakeStoreSpec]] = {}

    def resolve(self, item: Manifest, table: LakeTable) -> ResolvedTable | Unresolved:
        """`table`, which is what `item` declares, with everything it names.

        Raises ApiUnavailableError when a Secret cannot be read now.
        """
        return self._resolve(table, lambda resolved: self._claim(item, resolved))

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
        way = CatalogEgress.of(self._egress, place, credentials)
        with self._asking(catalog, way):
            return list_warehouse(
                place,
                self.open_store,
                credentials=way.pinned(),
                timeout_s=LIMITS.read_timeout_s,
                proxy_url=way.proxy_url,
            )

    def _resolve(
        self, table: LakeTable, claim: Callable[[ResolvedTable], Unresolved | None]
    ) -> ResolvedTable | Unresolved:
        namespace = table.metadata.namespace
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
        if taken is not None:
            return taken
        try:
            if resolved.stores or any(place.uri.startswith(S3_SCHEMES) for place in remote):
                self._connections.connect(namespace, resolved.stores.values())
            self._catalogs.credentials(namespace, table.spec.catalog)
        except SecretProblemError as error:
            return Unresolved(error.reason, error.message, may_heal=True)
        return resolved

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
            self._claim(item, resolve_table(table, stores, ca_bundle=CA_BUNDLE_PATH))
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
            return open_source(table, open_store, clock, credentials)
        way = CatalogEgress.of(self._egress, table, credentials)
        with self._asking(catalog, way):
            pinned, timeout_s = way.pinned(), LIMITS.read_timeout_s
            return open_source(table, open_store, clock, pinned, timeout_s, way.proxy_url)

    @contextmanager
    def _asking(self, catalog: Endpoint, way: CatalogEgress) -> Iterator[None]:
        """A request to a catalog, unless it is left alone. Raises StorageUnavailableError."""
        reason = self._endpoints.refusal(catalog)
        if reason is not None:
            raise StorageUnavailableError(reason)
        try:
            yield
        except TidelineError as error:
            problem = way.problem()
            if problem is not None:
                self._endpoints.note(catalog, problem)
                raise StorageUnavailableError(problem) from error
            is_unanswered = isinstance(error.__cause__, OSError)
            self._endpoints.note(catalog, str(error) if is_unanswered else None)
            raise
        self._endpoints.note(catalog, None)

    def others_below(self, key: Key, table: ResolvedTable) -> dict[str, str]:
        """Places that other LakeTables claim below a table's location, by path, with the owner."""
        address = claimed_address(table)
        found = self._locations.others_in(key, address)
        return {
            one.elder.address.removeprefix(address).strip("/"): "/".join(one.key)
            for one in found
            if one.elder.address != address
        }

    def forget(self, key: Key) -> None:
        """The table was deleted: its places are free."""
        for other in self._locations.release(key):
            self._wake(other)

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

    def _claim(self, item: Manifest, table: ResolvedTable) -> Unresolved | None:
        created_at = str(item["metadata"].get("creationTimestamp", ""))
        claim = TableClaim(key_of(item), claimed_places(item, table), created_at)
        taken, moved = self._locations.claim(claim)
        for other in moved:
            self._wake(other)
        return None if taken is None else Unresolved(LOCATION_TAKEN, _taken_message(taken))


def claimed_places(item: Manifest, table: ResolvedTable) -> tuple[ClaimedPlace, ...]:
    """The location and the landing prefixes of a table, as `item` declares them."""
    namespace = table.resource.metadata.namespace
    worked = _worked_at(item)
    spec = table.resource.spec
    location = ClaimedPlace(
        claimed_address(table),
        "spec.location" if spec.home_catalog is None else "spec.catalog",
        table.address,
        has_worked_there=item["spec"].get("location") in worked,
    )
    landings = (
        ClaimedPlace(
            address_of(table.landings[ingest.name], namespace),
            f"spec.ingest[{position}].source.path",
            table.landings[ingest.name].uri,
            is_landing=True,
            is_emptied=ingest.source.taken is not TakenPolicy.KEEP,
            has_worked_there=ingest.source.path in worked,
        )
        for position, ingest in enumerate(spec.ingest)
    )
    moved = (
        ClaimedPlace(
            address_of(table.moved_to[ingest.name], namespace),
            f"spec.ingest[{position}].source.movedTo",
            table.moved_to[ingest.name].uri,
            is_landing=True,
            has_worked_there=ingest.source.path in worked,
        )
        for position, ingest in enumerate(spec.ingest)
        if ingest.name in table.moved_to
    )
    return location, *landings, *moved


def claimed_address(table: ResolvedTable) -> str:
    """The address of the table itself."""
    namespace = table.resource.metadata.namespace
    return address_of(Place(table.address, table.location.options), namespace)


def _taken_message(taken: Taken) -> str:
    owner, own, elder = "/".join(taken.key), taken.own, taken.elder
    if own.is_landing and elder.is_landing:
        return (
            f"{own.field}: {own.shown} overlaps {elder.shown}, a landing prefix of LakeTable "
            f"{owner}, and files are taken away from one of the two (source.taken): keep them, or "
            "give each table its own landing prefix"
        )
    if own.is_landing:
        return (
            f"{own.field}: {own.shown} and the table of LakeTable {owner} at {elder.shown} "
            "overlap; choose a landing prefix outside of tables"
        )
    if elder.is_landing:
        return (
            f"{own.field}: {own.shown} and the landing prefix {elder.shown} of LakeTable {owner} "
            "overlap; choose a location outside of landing prefixes"
        )
    return (
        f"{own.field}: {own.shown} overlaps {elder.shown}, the location of LakeTable {owner}; "
        "choose another location or delete one of the two"
    )


def _worked_at(item: Manifest) -> set[object]:
    """Where this resource has worked, or found its table, as its spec spells the places."""
    status = item.get("status") or {}
    refused = any(one.get("reason") == LOCATION_TAKEN for one in status.get("conditions") or ())
    has_worked = bool(status.get("operations") or status.get("table"))
    if refused or not has_worked:
        return set()
    before = status.get("lastValidSpec") or {}
    sources = (ingest.get("source") or {} for ingest in before.get("ingest") or ())
    return {before.get("location"), *(source.get("path") for source in sources)}
