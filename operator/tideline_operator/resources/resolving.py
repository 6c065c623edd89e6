"""From the names in a LakeTable to the places they mean: paths, URIs and LakeStores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tideline.errors import ConfigError
from tideline.ingest.location import Location
from tideline.ingest.sources.source import Declared
from tideline.storage.egress.client_files import ClientFiles
from tideline.storage.kinds import KINDS, checked_options, kind_of
from tideline.storage.location import StoreLocation
from tideline_operator.resources.lake_store import LakeStoreSpec
from tideline_operator.resources.lake_table import LakeTable, LakeTableSpec
from tideline_operator.resources.resolved import ResolvedTable
from tideline_operator.resources.sources.kinds import resolver_of
from tideline_operator.resources.sources.place_finder import overlaps
from tideline_operator.resources.store_families import FAMILIES


def resolve_table(
    table: LakeTable,
    stores: Mapping[str, LakeStoreSpec],
    *,
    folder: Path | None = None,
    ca_bundle: str | None = None,
    client_files: ClientFiles | None = None,
) -> ResolvedTable:
    """`table` with every place it names; `stores` are the LakeStores of its namespace.

    Relative paths are relative to `folder`, for `tideline run`. `ca_bundle` is the file with the
    authorities that certificates are checked against: in `tideline run` those of all stores, in a
    cluster (no `folder`) those of stores with TLS settings. `client_files` are those of the
    certificate to show, with the same difference. Raises ConfigError naming the field.
    """
    return _Resolver(table, stores, folder, ca_bundle, client_files).resolve()


def store_names(spec: LakeTableSpec) -> tuple[str, ...]:
    """The LakeStores that a table and its ingests refer to, each once."""
    named = (spec.store_ref, *(ingest.source.store_ref for ingest in spec.ingest))
    return tuple(dict.fromkeys(name for name in named if name is not None))


def store_options(
    spec: LakeStoreSpec, *, ca_bundle: str | None, client_files: ClientFiles | None = None
) -> dict[str, str]:
    """A LakeStore as the options of a StoreLocation; `client_files` are not for one without TLS."""
    if spec.gcs is not None:
        return _server_options("gcs_endpoint", spec.gcs.endpoint, ca_bundle)
    if spec.azure is not None:
        options = _server_options("azure_endpoint", spec.azure.endpoint, ca_bundle)
        account = spec.azure.account
        return options if account is None else {**options, "azure_account": account}
    options = {"region": spec.region, "path_style": str(spec.path_style).lower()}
    if spec.create_buckets:
        options["create_bucket"] = "true"
    options |= _header_options(spec)
    if client_files is not None and not (spec.endpoint or "").startswith("http://"):
        options |= client_files.options
    return {**options, **_server_options("endpoint", spec.endpoint, ca_bundle)}


def _header_options(spec: LakeStoreSpec) -> dict[str, str]:
    headers = {
        "sse": spec.sse and spec.sse.value,
        "sse_kms_key_id": spec.sse_kms_key_id,
        "sse_bucket_key": _switch(spec.sse_bucket_key),
        "requester_pays": _switch(spec.requester_pays or None),
        "checksum_algorithm": spec.checksum_algorithm and spec.checksum_algorithm.value,
    }
    return {name: text for name, text in headers.items() if text is not None}


def _switch(value: bool | None) -> str | None:
    return None if value is None else str(value).lower()


def _server_options(name: str, endpoint: str | None, ca_bundle: str | None) -> dict[str, str]:
    options = {}
    if endpoint is not None:
        options[name] = endpoint.rstrip("/")
        if endpoint.startswith("http://"):
            options["allow_http"] = "true"
    if ca_bundle is not None:
        options["ca_bundle"] = ca_bundle
    return options


@dataclass(frozen=True, slots=True)
class _Resolver:
    """Turns the names in one LakeTable into locations."""

    table: LakeTable
    stores: Mapping[str, LakeStoreSpec]
    folder: Path | None
    ca_bundle: str | None
    client_files: ClientFiles | None

    def resolve(self) -> ResolvedTable:
        spec = self.table.spec
        if spec.home_catalog is None:
            location = self.locate(spec.location, spec.store_ref, "spec.location")
        else:
            location = self._files_of_catalog(spec.store_ref)
        sources, former = {}, {}
        for position, ingest in enumerate(spec.ingest):
            places = _Places(self, location, f"spec.ingest[{position}].source")
            resolver = resolver_of(ingest.source)
            sources[ingest.name] = resolver.resolve(ingest.source, places)
            before = resolver.former(ingest.source, places)
            if before is not None:
                former[ingest.name] = before
        self._refuse_shared(sources)
        found = {name: self.stores[name] for name in store_names(spec) if name in self.stores}
        return ResolvedTable(self.table, location, sources, found, former)

    def _refuse_shared(self, sources: Mapping[str, Declared]) -> None:
        """Raise ConfigError where an ingest takes away what another one is to read."""
        for position, (name, source) in enumerate(sources.items()):
            for other, theirs in sources.items():
                if other == name or not source.takes_from(theirs):
                    continue
                if source.places:
                    raise ConfigError(
                        f"spec.ingest[{position}].source.taken: ingest {other!r} reads the "
                        "same files: keep them, or give each ingest its own landing prefix"
                    )
                raise ConfigError(
                    f"spec.ingest[{position}].source.slot: ingest {other!r} has the same slot: "
                    "give each ingest its own"
                )

    def locate(self, text: str, store_ref: str | None, field: str) -> Location:
        try:
            if "://" not in text:
                if self.folder is None:
                    raise ConfigError(f"{text!r} is a folder on one machine; write s3://...")
                return _place(str((self.folder / text).absolute()), {})
            kind = kind_of(text.partition(":")[0])
            if kind is None or not kind.is_remote:
                return _place(text, {})
            store = self._store(store_ref)
            if store.scheme != kind.scheme:
                family = FAMILIES[kind.scheme]
                raise ConfigError(
                    f"{text!r} is in {family.title}, LakeStore {store_ref!r} is a store "
                    f"in {FAMILIES[store.scheme].title}: {family.advice}"
                )
            if self.folder is None and not self._names_account(text, store):
                raise ConfigError(
                    f"{text!r} names no account: give LakeStore {store_ref!r} spec.azure.account"
                )
            place = _place(text, self._options(store))
            own = place.uri.partition("@")[2].partition(".")[0]
            if store.azure is not None and store.azure.account not in (None, own):
                raise ConfigError(
                    f"{text!r} is in another account of Azure than LakeStore {store_ref!r}"
                )
            return place
        except ConfigError as error:
            raise ConfigError(f"{field}: {error}") from error

    def _files_of_catalog(self, store_ref: str | None) -> Location:
        """How to reach the files of a table whose location only its catalog knows."""
        if store_ref is None:
            return Location("")
        try:
            store = self._store(store_ref)
            options = checked_options(KINDS[store.scheme], self._options(store))
        except ConfigError as error:
            raise ConfigError(f"spec.storeRef: {error}") from error
        return Location("", tuple(sorted(options.items())))

    def _store(self, store_ref: str | None) -> LakeStoreSpec:
        if store_ref is None:
            raise ConfigError("a location in a store needs a storeRef that names a LakeStore")
        store = self.stores.get(store_ref)
        if store is None:
            namespace, known = self.table.metadata.namespace, ", ".join(sorted(self.stores))
            raise ConfigError(
                f"there is no LakeStore {store_ref!r} in namespace {namespace}; "
                f"existing ones: {known or 'none'}"
            )
        return store

    def _names_account(self, text: str, store: LakeStoreSpec) -> bool:
        """Whether nothing of a location is left to the environment, which is the operator's."""
        authority = text.partition("://")[2].partition("/")[0]
        return store.azure is None or store.azure.account is not None or "@" in authority

    def _options(self, store: LakeStoreSpec) -> dict[str, str]:
        is_local = self.folder is not None
        is_shown = is_local or store.client_certificate is not None
        return store_options(
            store,
            ca_bundle=self.ca_bundle if is_local or store.tls is not None else None,
            client_files=self.client_files if is_shown else None,
        )


@dataclass(frozen=True, slots=True)
class _Places:
    """A PlaceFinder of one ingest; `field` is that of its source."""

    resolver: _Resolver
    location: Location
    field: str

    def find(self, text: str, store_ref: str | None, field: str) -> Location:
        store = store_ref or self.resolver.table.spec.store_ref
        return self.resolver.locate(text, store, f"{self.field}.{field}")

    def keep_apart(
        self, field: str, text: str, place: Location, *others: tuple[Location, str]
    ) -> None:
        for other, name in (*others, (self.location, "the table's location")):
            if overlaps(place.uri, other.uri):
                raise self.refuse(field, f"{text!r} and {name} overlap; keep them apart")

    def refuse(self, field: str, message: str) -> ConfigError:
        return ConfigError(f"{self.field}.{field}: {message}")


def _place(uri: str, options: Mapping[str, str]) -> Location:
    location = StoreLocation.of(uri, options)
    return Location(location.uri, location.options)
