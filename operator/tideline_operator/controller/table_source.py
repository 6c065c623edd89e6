"""From a LakeTable object to a resolved table, or the reason why it cannot be resolved.

1. The spec is parsed. If it is not valid, the last valid one, kept in status, stays in force.
2. The LakeStores it names are found, and the Secrets they name.
3. No other LakeTable may hold its places, see claims.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tideline.clock import Clock
from tideline.errors import ConfigError, TidelineError
from tideline.ingest.location import Location
from tideline.storage.egress.proxy import EgressProxy
from tideline.storage.kinds import is_remote
from tideline_operator.api_objects import LAKE_SOURCES, Manifest
from tideline_operator.controller.catalog_secrets import CatalogSecrets
from tideline_operator.controller.claims import Claims, taken_message
from tideline_operator.controller.connections import LIMITS, Connections
from tideline_operator.controller.endpoints import (
    EndpointGate,
    Endpoints,
    catalog_endpoint,
    source_access_of,
    source_servers,
)
from tideline_operator.controller.locations import Locations, Taken
from tideline_operator.controller.namespace_access import NOT_OPEN, NamespaceAccess
from tideline_operator.controller.object_cache import ObjectCache, key_of
from tideline_operator.controller.owned_tables import owner_of
from tideline_operator.controller.source_secrets import SourceSecrets
from tideline_operator.controller.store_secrets import SecretProblemError
from tideline_operator.controller.work_queue import Key
from tideline_operator.decide.observed import LOCATION_TAKEN, Observed
from tideline_operator.launch.engine_pod import CA_BUNDLE_PATH, CLIENT_FILES
from tideline_operator.reading.access import Access, SourceAccess
from tideline_operator.reading.reader import Reader
from tideline_operator.resources.lake_store import LakeStore, LakeStoreSpec
from tideline_operator.resources.lake_table import LakeTable
from tideline_operator.resources.parsing import parse_object
from tideline_operator.resources.resolved import ResolvedTable, sharing_slot
from tideline_operator.resources.resolving import resolve_table, store_names
from tideline_operator.resources.status import LakeTableStatus


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
    of anything that is watched. `placed` is the table where only its Secrets are missing."""

    reason: str
    message: str
    may_heal: bool = False
    placed: ResolvedTable | None = None


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
        sources: SourceSecrets,
        locations: Locations,
        endpoints: Endpoints,
        wake: Callable[[Key], None],
        clock: Clock,
        access: NamespaceAccess,
        reader: Reader,
        egress: EgressProxy | None,
        *,
        allows_local: bool = False,
    ) -> None:
        """Requests to stores and catalogs leave by way of `egress`."""
        self.claims = Claims(locations, clock, wake)
        self._namespaces = access
        self._reader = reader
        self._stores = stores
        self._connections = connections
        self._catalogs = catalogs
        self._sources = sources
        self._endpoints = endpoints
        self._egress = egress
        self._allows_local = allows_local
        self._specs: dict[Key, tuple[object, LakeStoreSpec]] = {}

    def closed(self, namespace: str) -> Unresolved | None:
        """Why nothing can be done in a namespace; None where the operator is let in.

        Raises ApiUnavailableError.
        """
        reason = self._namespaces.closed(namespace)
        return None if reason is None else Unresolved(NOT_OPEN, reason, may_heal=True)

    def resolve(self, item: Manifest, table: LakeTable) -> ResolvedTable | Unresolved:
        """`table`, which is what `item` declares, with everything it names.

        Raises ApiUnavailableError when a Secret cannot be read now.
        """
        resolved = self._resolve(table, lambda resolved: self.claims.claim(item, resolved))
        owner = owner_of(item)
        is_of_source = owner is not None and owner[0] == LAKE_SOURCES.kind
        if not is_of_source or isinstance(resolved, Unresolved):
            return resolved
        return sharing_slot(resolved)

    def resolve_place(self, place: LakeTable) -> ResolvedTable | Unresolved:
        """The place of a LakeCatalog or LakeSource, which claims nothing: its tables do. Raises as
        `resolve`."""
        return self._resolve(place, lambda _: None)

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
            resolved = resolve_table(
                table, stores, ca_bundle=CA_BUNDLE_PATH, client_files=CLIENT_FILES
            )
        except ConfigError as error:
            return Unresolved("LocationInvalid", error.message)
        remote = [place for place in resolved.claimed if place.uri]
        if not self._allows_local and not all(is_remote(at.uri) for at in remote):
            message = (
                "spec: pods only reach stores at servers; name a LakeStore and s3://bucket/..."
            )
            return Unresolved("LocationInvalid", message)
        taken = claim(resolved)
        if taken is not None and not taken.is_foreign:
            return refused_claim(taken)
        try:
            if resolved.stores or any(is_remote(place.uri) for place in remote):
                self._connections.connect(namespace, resolved.stores.values())
            self._catalogs.credentials(namespace, table.spec.catalog)
            self._sources.variables(namespace, table.spec)
        except SecretProblemError as error:
            return Unresolved(error.reason, error.message, may_heal=True, placed=resolved)
        return resolved if taken is None else self._refused(resolved, taken)

    def secret_versions(self, table: ResolvedTable) -> tuple[str, ...]:
        """The versions of the Secrets that a resolved table's pods read."""
        namespace = table.resource.metadata.namespace
        return (
            *self._connections.versions(namespace, table.stores.values()),
            *self._catalogs.versions(namespace, table.spec.catalog),
            *self._sources.versions(namespace, table.spec),
        )

    def hold(self, item: Manifest, table: LakeTable) -> None:
        """Claim the places of a table without a valid spec, so that no other table takes them."""
        stores = self._lake_stores(table.metadata.namespace, store_names(table.spec))
        if isinstance(stores, Unresolved):
            return
        try:
            resolved = resolve_table(
                table, stores, ca_bundle=CA_BUNDLE_PATH, client_files=CLIENT_FILES
            )
            self.claims.claim(item, resolved)
        except ConfigError:
            return

    def access(self, table: ResolvedTable) -> Access:
        """How the places of a resolved table, and its catalog, are reached, with the credentials of
        its LakeStores and of the catalog.

        Raises SecretProblemError and ApiUnavailableError.
        """
        namespace, catalog = table.resource.metadata.namespace, catalog_endpoint(table)
        places = table.places
        connection = None
        if catalog is not None or any(is_remote(place.uri) for place in places):
            stores = table.stores.values()
            connection = self._connections.connect(namespace, stores, may_be_old=True)
        credentials = self._catalogs.credentials(namespace, table.spec.catalog)
        sources = self._source_access(table)
        if catalog is None and not sources.servers:
            return Access(connection, credentials, allows_local=self._allows_local)
        return Access(
            connection,
            credentials,
            None if catalog is None else self._gate(namespace, catalog.access),
            "" if catalog is None else catalog.server,
            LIMITS.read_timeout_s,
            allows_local=self._allows_local,
            egress=None if self._egress is None else self._egress.of(namespace),
            sources=sources,
        )

    def _source_access(self, table: ResolvedTable) -> SourceAccess:
        servers, namespace = source_servers(table), table.resource.metadata.namespace
        if not servers:
            return SourceAccess()
        gate = self._gate(namespace, source_access_of(table))
        return SourceAccess(self._sources.variables(namespace, table.spec), servers, gate)

    def _gate(self, namespace: str, access: str) -> EndpointGate:
        return EndpointGate(self._endpoints, namespace, access, _reads_only)

    def store_access(self, table: ResolvedTable) -> Access:
        """How the LakeStores of a table are reached with their Secrets as they are now, whatever
        its catalog needs. Raises as `access`."""
        namespace = table.resource.metadata.namespace
        connection = self._connections.connect(namespace, table.stores.values())
        return Access(connection, {}, allows_local=self._allows_local)

    def check_claims(
        self, item: Manifest, table: ResolvedTable, status: LakeTableStatus, observed: Observed
    ) -> tuple[LakeTableStatus, Unresolved | None]:
        """Have the store say, after a look at the table, which of its claims count: the status with
        these, and what stands in the way of continuing."""
        uid, has_problem = str(item["metadata"].get("uid")), observed.problem is not None

        def may_write(place: Location) -> bool:
            return self._reader.may_write(self.access(table), table, place, uid)

        is_seen = observed.iceberg is not None
        checked = self.claims.check(
            item, table, status, may_write, is_seen=is_seen, has_problem=has_problem
        )
        if checked.taken is not None:
            return checked.status, refused_claim(checked.taken)
        if checked.problem is None or has_problem:
            return checked.status, None
        problem = checked.problem
        return checked.status, Unresolved(problem.kind, str(problem), may_heal=True)

    def _refused(self, table: ResolvedTable, taken: Taken) -> Unresolved:
        """A place is another namespace's; the message says so to tables that may read there."""
        own = taken.own
        place = next(
            (location for location in table.claimed if location.uri == own.shown), table.location
        )
        try:
            self._reader.check_list(self.access(table), table, place)
        except TidelineError as error:
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


def _reads_only() -> None:
    """Nothing is written to a catalog, and by no look at a source."""
