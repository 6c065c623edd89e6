"""A REST catalog on loopback with real tables in memory; at each request anything may happen.

    with ServedCatalog() as catalog:
        model = catalog.create("shop.orders")        # a table for writers that no request delays
        catalog.reply = lambda request: ...           # what a request meets instead of its answer

Requirements are checked and updates are applied by PyIceberg, as servers other than ours would.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from urllib.parse import unquote

from pyiceberg.catalog.rest import DEFAULT_ENDPOINTS, CreateTableRequest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest
from pyiceberg.table.metadata import TableMetadata as KnownMetadata
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import RemoveSnapshotsUpdate, TableUpdate, update_table_metadata

from tideline.iceberg.metadata.metadata_log import with_logged
from tideline.iceberg.metadata.metadata_update import (
    MetadataUpdate,
    Requirement,
    apply_updates,
    unmet,
)
from tideline.iceberg.metadata.table_metadata import TableMetadata
from tideline.iceberg.table.catalog_update import metadata_document
from tideline.iceberg.table.file_io import FileIO
from tideline.iceberg.table.table_operations import (
    CommitOutcome,
    Committed,
    Conflicted,
    Loaded,
)
from tideline.storage.location import StoreLocation
from tideline.storage.object_store import ObjectStore
from tideline.testing.hostile_catalog import Answer, HostileCatalog, Received
from tideline.testing.iceberg_model import IcebergModel

TRANSACTIONS = "/transactions/commit"


def without_prefixes(answer: Answer) -> Answer:
    """An answer that vends credentials of a form that no client reads."""
    document = answer.document
    for entry in document.get("storage-credentials", []):
        del entry["prefix"]
    return answer.saying(document)


class ServedCatalog(HostileCatalog):
    """See the module. `tables` is the newest metadata of each table by its name; `applied` are the
    snapshots that each commit of a client left, with the table's UUID. `new_place` says where a
    table goes that a client asks for, `commits_together` whether it commits several as one."""

    def __init__(self) -> None:
        super().__init__("memory://nowhere/orders")
        self.tables: dict[str, Loaded] = {}
        self.applied: list[tuple[str, frozenset[int]]] = []
        self.reply: Callable[[Received], Answer] = self.honest
        self.commits_together = False
        self.new_place: Callable[[], str] = lambda: f"memory://{uuid.uuid4().hex}/table"
        self._lock = threading.RLock()

    def create(self, name: str, location: str | None = None) -> ServedModel:
        """A new table, in a folder of its own unless there is one."""
        twin = IcebergModel.create(properties={"commit.retry.num-retries": "3"})
        place = location or f"memory://{uuid.uuid4().hex}/table"
        metadata = replace(twin.metadata(), location=place, metadata_log=())
        self.tables[name] = self._written(metadata)
        return ServedModel(StoreLocation.of(place), catalog=self, name=name)

    def store(self, location: str) -> ObjectStore:
        """How the catalog itself reaches a table's folder."""
        return StoreLocation.of(location).open()

    def rename(self, name: str, new_name: str) -> None:
        self.tables[new_name] = self.tables.pop(name)

    def answered(self, request: Received) -> Answer:
        with self._lock:
            self.received.append(request)
            return self.reply(request)

    def honest(self, request: Received) -> Answer:
        """The answer of a server that works."""
        if request.path.endswith("/register"):
            return self._registered(request)
        if request.path.endswith(TRANSACTIONS):
            return self._together(request)
        if request.kind == "config" and self.commits_together:
            listed = sorted(map(str, DEFAULT_ENDPOINTS))
            together = f"POST /v1/{{prefix}}{TRANSACTIONS}"
            return Answer().saying({"defaults": {}, "overrides": {},
                                    "endpoints": [*listed, together]})  # fmt: skip
        if request.kind == "tables" and request.method == "POST":
            return self._placed(request)
        if request.kind == "namespaces" and (name := request.path.rpartition("/namespaces/")[2]):
            return Answer().saying({"namespace": [name], "properties": {}})
        if request.kind not in ("table", "commit"):
            return self._honest(request)
        name = unquote(request.path.partition("/namespaces/")[2]).replace("/tables/", ".")
        name = name.partition("?")[0]
        if name not in self.tables:
            return refusal(404, "NoSuchTableException")
        if request.kind == "commit":
            try:
                self._commit(name, request.body)
            except CommitFailedException as error:
                return refusal(409, "CommitFailedException", str(error))
        return _shown(self.tables[name])

    def commit_here(
        self, name: str, requirements: Iterable[Requirement], updates: Iterable[MetadataUpdate]
    ) -> CommitOutcome:
        """A commit that goes through no request."""
        with self._lock:
            base = self.tables[name]
            reason = unmet(base.metadata, requirements)
            if reason is not None:
                return Conflicted(reason)
            changed = apply_updates(
                base.metadata, updates, now_ms=base.metadata.last_updated_ms + 1
            )
            changed = with_logged(changed, base.metadata, base.metadata_location)
            self.tables[name] = self._written(changed)
            return Committed(self.tables[name])

    def _together(self, request: Received) -> Answer:
        """A commit of several tables: all or none."""
        before = dict(self.tables)
        for change in json.loads(request.body)["table-changes"]:
            known = change["identifier"]
            name = ".".join((*known["namespace"], known["name"]))
            if name not in self.tables:
                self.tables = before
                return refusal(404, "NoSuchTableException")
            try:
                self._commit(name, json.dumps(change).encode())
            except CommitFailedException as error:
                self.tables = before
                return refusal(409, "CommitFailedException", str(error))
        return Answer(status=204, body=b"")

    def _placed(self, request: Received) -> Answer:
        document = {"location": self.new_place(), **json.loads(request.body)}
        asked = CreateTableRequest.model_validate(document)
        namespace = unquote(request.path.rpartition("/")[0].rpartition("/")[2])
        name = f"{namespace}.{asked.name}"
        if name in self.tables:
            return refusal(409, "AlreadyExistsException")
        made = new_table_metadata(
            asked.table_schema,
            asked.partition_spec or UNPARTITIONED_PARTITION_SPEC,
            asked.write_order or UNSORTED_SORT_ORDER,
            str(asked.location),
            asked.properties,
        )
        self.tables[name] = self._written(TableMetadata.of(metadata_document(made)))
        return _shown(self.tables[name])

    def _registered(self, request: Received) -> Answer:
        asked = json.loads(request.body)
        namespace = unquote(request.path.rpartition("/")[0].rpartition("/")[2])
        name, location = f"{namespace}.{asked['name']}", asked["metadata-location"]
        if name in self.tables:
            return refusal(409, "AlreadyExistsException")
        folder, _, path = location.rpartition("/metadata/")
        body = self.store(folder).get(f"metadata/{path}")
        self.tables[name] = Loaded(TableMetadata.parse(body, path=location), location)
        return _shown(self.tables[name])

    def _commit(self, name: str, body: bytes) -> None:
        asked, base = CommitTableRequest.model_validate_json(body), self.tables[name]
        before = TableMetadataUtil.parse_obj(base.metadata.json())
        for requirement in asked.requirements:
            requirement.validate(before)
        updates = tuple(_without_gone(update, before) for update in asked.updates)
        after = update_table_metadata(before, updates, metadata_location=base.metadata_location)
        metadata = TableMetadata.of(metadata_document(after))
        self.tables[name] = self._written(metadata)
        ids = frozenset(snapshot.snapshot_id for snapshot in metadata.snapshots)
        self.applied.append((metadata.table_uuid, ids))

    def _written(self, metadata: TableMetadata) -> Loaded:
        path = f"metadata/{len(metadata.metadata_log):05d}-{uuid.uuid4()}.metadata.json"
        body = metadata.to_bytes()
        self.store(metadata.location).put(path, body)
        location = f"{metadata.location}/{path}"
        return Loaded(TableMetadata.parse(body, path=location), location)


def _without_gone(update: TableUpdate, before: KnownMetadata) -> TableUpdate:
    """Iceberg's own servers remove those of the snapshots that there are; PyIceberg refuses."""
    if not isinstance(update, RemoveSnapshotsUpdate):
        return update
    there = {snapshot.snapshot_id for snapshot in before.snapshots}
    ids = [number for number in update.snapshot_ids if number in there]
    return update.model_copy(update={"snapshot_ids": ids})


class ServedTable:
    """TableOperations without requests, for other writers and for looking."""

    def __init__(self, catalog: ServedCatalog, name: str) -> None:
        self._catalog, self._name = catalog, name

    @property
    def io(self) -> FileIO:
        location = self.load().metadata.location
        return FileIO(StoreLocation.of(location), location)

    @property
    def arguments(self) -> str:
        return self._name

    def load(self) -> Loaded:
        return self._catalog.tables[self._name]

    def commit(
        self, base: Loaded, requirements: Iterable[Requirement], updates: Iterable[MetadataUpdate]
    ) -> CommitOutcome:
        del base
        return self._catalog.commit_here(self._name, requirements, updates)


@dataclass(slots=True, kw_only=True)
class ServedModel(IcebergModel):
    """A table of the catalog by its name."""

    catalog: ServedCatalog
    name: str

    def operations(self, store: object = None) -> ServedTable:  # type: ignore[override]
        del store
        return ServedTable(self.catalog, self.name)


def _shown(found: Loaded) -> Answer:
    document = found.metadata.json()
    return Answer().saying(
        {"metadata-location": found.metadata_location, "metadata": document, "config": {}}
    )


def refusal(status: int, kind: str, message: str = "not now") -> Answer:
    """An error as the REST specification has them, for a client that need not wait."""
    document = {"error": {"message": message, "type": kind, "code": status}}
    return replace(Answer().saying(document), status=status, headers={"Retry-After": "0"})
