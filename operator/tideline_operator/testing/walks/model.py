"""What must hold of the resources of a walk once the operator has seen the world as it is.

The model has what is broken; it does not read what the operator concluded. Where several
conclusions are right it demands none: of a world that is broken in an unusual way only that no
status is behind, and nothing is said to be well that is known to be broken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from tideline.errors import ConfigError
from tideline_operator.api_objects import Manifest
from tideline_operator.controller.table_source import declared_table
from tideline_operator.resources.ingest import Ingest
from tideline_operator.resources.lake_catalog import LakeCatalog
from tideline_operator.resources.lake_store import LakeStore
from tideline_operator.resources.lake_table import LakeTable, LakeTableSpec, TableFormat
from tideline_operator.resources.metadata import is_pause
from tideline_operator.resources.parsing import parse_object
from tideline_operator.resources.resolving import resolve_table, store_names
from tideline_operator.resources.schedule import Duration
from tideline_operator.resources.services import ServiceMode
from tideline_operator.testing.walks.pods import PodEnd, PretendedPods
from tideline_operator.testing.walks.world import KEYS, LakeWorld

SOON = Duration(600_000)
"""Triggers within this time are waited for."""
_SERVICES = ("services", "properties", "rerun", "publish", "sync", "catalog", "timezone")
_PODS = ("podTemplate", "resources", "engine", "catalog", *_SERVICES)
CAUSES: Mapping[str, tuple[str, ...]] = {
    "SourceMoved": ("ingest",),
    "IngestRenamed": ("ingest",),
    "LocationTaken": ("ingest",),
    "NoSavepoint": ("restoreTo",),
    "ConfigError": _SERVICES,
    "OperationFailed": _PODS,
}
"""Reasons for not being Ready in a world that is whole, and the fields whose edits may lead to
them."""
Parsed = TypeVar("Parsed")


class Whole(Enum):
    """Whether what a table needs is there."""

    YES = "whole"
    NO = "broken"
    UNSURE = "unusual"


@dataclass(slots=True)
class WalkModel:
    """What must hold in `world` with `pods`. `bases` are the specs that walks begin with, by name,
    `edited` the tables whose ingests were edited since their data began."""

    world: LakeWorld
    pods: PretendedPods
    bases: Mapping[str, Mapping[str, Any]]
    store: Manifest | None = None
    edited: set[str] = field(default_factory=set)

    def behind(self, item: Manifest) -> str | None:
        """Why the status of an object is not about its newest spec."""
        seen = (item.get("status") or {}).get("observedGeneration")
        generation = item["metadata"]["generation"]
        if seen == generation:
            return None
        return f"{_title(item)}: observedGeneration is {seen}, generation {generation}"

    def table_fault(self, item: Manifest) -> str | None:
        """What the status of a LakeTable says and is not so, or does not say and is so."""
        last_valid = (item.get("status") or {}).get("lastValidSpec") or {}
        declared = declared_table(item, last_valid)
        is_valid = declared.problem is None
        if self.world.is_open and _truth(item, "SpecValid") != str(is_valid):
            return f"{_title(item)}: SpecValid, but the spec is valid: {is_valid}"
        if declared.table is None or not is_valid:
            return self._expects(item, "False")
        spec, annotations = declared.table.spec, item["metadata"].get("annotations") or {}
        is_paused = spec.suspend or is_pause(annotations) or self.world.is_namespace_paused
        whole = self._whole(declared.table)
        if whole is Whole.NO:
            return f"{_title(item)}: Ready" if _truth(item, "Ready") == "True" else None
        if whole is Whole.UNSURE or not self.world.is_open:
            return None
        if _truth(item, "Paused") != str(is_paused):
            return f"{_title(item)}: Paused, but it is {is_paused}"
        if is_paused:
            return self._expects(item, "Unknown")
        return self._fault_at_work(item, spec, _changed(item, self.bases))

    def store_fault(self, item: Manifest, tables: list[Manifest]) -> str | None:
        """The same of a LakeStore; `tables` are all LakeTables."""
        whole = self._store_whole(item["metadata"]["name"])
        truth = _truth(item, "Ready")
        if whole is Whole.NO and truth == "True":
            return f"{_title(item)}: Ready"
        used = [
            table for table in tables if (table["spec"].get("storeRef")) == item["metadata"]["name"]
        ]
        buckets = {self.world.lake, self.world.landing} <= self.world.buckets
        is_whole = whole is Whole.YES and self.world.is_open and buckets
        plain = all(_base_of(table, self.bases) == table["spec"] for table in used)
        if used and plain and is_whole and truth != "True":
            return f"{_title(item)}: not Ready"
        return None

    def catalog_fault(self, item: Manifest, tables: list[Manifest]) -> str | None:
        """The same of a LakeCatalog."""
        try:
            catalog = parse_object(LakeCatalog, item)
        except ConfigError:
            return self._expects(item, "False")
        spec = catalog.spec
        if spec.store_ref is not None and self._store_whole(spec.store_ref) is not Whole.YES:
            return f"{_title(item)}: Ready" if _missing_and_ready(item, self.store) else None
        # Where nothing is found any more, LakeTables stay: rights may be missing.
        if not self.world.is_open or spec.every > SOON or not self.world.iceberg_tables():
            return None
        if (fault := self._expects(item, "True")) is not None:
            return fault
        # By their places: a name that another LakeTable had at the time is lengthened.
        root, name = f"{spec.location}/", str(item["metadata"]["name"])
        places = [str(table["spec"]["location"]) for table in tables if owner_of(table) == name]
        found = sorted(place.removeprefix(root).replace("/", ".") for place in places)
        wanted = sorted(self._included(catalog))
        return None if found == wanted else f"{_title(item)}: LakeTables of {found}, not {wanted}"

    def pending(self, location: str, ingest: Ingest) -> list[str]:
        """Files that an ingest has not taken in yet, by their paths."""
        taken = self.pods.taken_by(location, ingest.name)
        files = self.world.files_in(ingest.source.path, ingest.source.format.of_files)
        return [file.path for file in files if file.identity not in taken]

    def _fault_at_work(
        self, item: Manifest, spec: LakeTableSpec, changed: frozenset[str]
    ) -> str | None:
        """Of a table that works, or would if its pods did."""
        truth, reason = _truth(item, "Ready"), _reason(item, "Ready")
        if self.pods.end is not PodEnd.SUCCEED:
            if reason == "OperationFailed" and not self._has_failing(item, spec):
                return f"{_title(item)}: a failure stands that has no cause any more"
            return None
        if truth != "True":
            is_caused = bool(changed.intersection(CAUSES.get(reason, ())))
            was_caused = "ingest" in CAUSES.get(reason, ()) and _name(item) in self.edited
            by_another = reason == "LocationTaken" and bool(self.edited)
            is_right = is_caused or was_caused or by_another
            return None if is_right else f"{_title(item)}: not Ready"
        if changed or spec.fenced or spec.restore_to is not None:
            return None
        waiting = [path for ingest in spec.ingest for path in self.pending(spec.location, ingest)]
        return f"{_title(item)}: {', '.join(waiting)} not ingested" if waiting else None

    def _has_failing(self, item: Manifest, spec: LakeTableSpec) -> bool:
        """Whether something that failed is declared, and still to be done."""
        return any(
            self._is_wanted(spec, entry["kind"], entry.get("subject", ""))
            for entry in (item.get("status") or {}).get("operations") or ()
            if entry["phase"] == "Failed"
            or (entry["phase"] != "Succeeded" and entry.get("failures"))
        )

    def _is_wanted(self, spec: LakeTableSpec, kind: str, subject: str) -> bool:
        ingests = {ingest.name: ingest for ingest in spec.ingest}
        match kind:
            case "create":
                return not self.world.objects_below(f"{spec.location}/.hoodie")
            case "ingest":
                return subject in ingests and self._is_due(spec, ingests[subject])
            case "savepoint":
                return subject in {savepoint.name for savepoint in spec.savepoints}
            case "restore":
                return spec.restore_to is not None
            case "rollback":
                return True
            case _:
                return spec.services.mode is ServiceMode.AUTO

    def _is_due(self, spec: LakeTableSpec, ingest: Ingest) -> bool:
        if spec.fenced or spec.restore_to is not None:
            return False
        is_plain = ingest.trigger.every is not None and ingest.trigger.every <= SOON
        return not is_plain or bool(self.pending(spec.location, ingest))

    def _whole(self, table: LakeTable) -> Whole:
        spec = table.spec
        found = [self._store_whole(name) for name in store_names(spec)]
        if Whole.NO in found:
            return Whole.NO
        if spec.catalog is not None and spec.catalog.credentials is not None:
            return Whole.NO
        if found and Whole.UNSURE not in found and self.store is not None:
            stores = dict.fromkeys(store_names(spec), parse_object(LakeStore, self.store).spec)
            try:
                resolve_table(table, stores)
            except ConfigError:
                return Whole.NO
        places = [spec.location, *(ingest.source.path for ingest in spec.ingest)]
        remote = [place for place in places if place.startswith("s3://")]
        creates = bool(self.store and self.store["spec"].get("createBuckets"))
        if not all(map(self.world.has_bucket_of, remote)):
            return Whole.UNSURE if creates else Whole.NO
        if spec.format is TableFormat.ICEBERG:
            is_there = Path(spec.location.removeprefix("file://"), "metadata").exists()
            return Whole.YES if is_there else Whole.NO
        is_odd = any(not place.startswith("s3://") for place in places)
        if is_odd:
            return Whole.UNSURE
        return Whole.UNSURE if Whole.UNSURE in found else Whole.YES

    def _store_whole(self, name: str) -> Whole:
        item = self.store
        if item is None or item["metadata"]["name"] != name:
            return Whole.NO
        try:
            spec = parse_object(LakeStore, item).spec
        except ConfigError:
            return Whole.NO
        named = spec.credentials.secret_name if spec.credentials is not None else ""
        if spec.web_identity is None and (named != KEYS or not self.world.right_keys):
            return Whole.NO
        plain = {"endpoint", "credentials", "region", "createBuckets"}
        is_plain = set(item["spec"]) <= plain | {"pathStyle", "engine"} and not item["spec"].get(
            "engine"
        )
        is_right = spec.endpoint == self.world.endpoint and spec.path_style
        is_usual = is_plain and is_right and spec.region == "us-east-1"
        return Whole.YES if is_usual else Whole.UNSURE

    def _included(self, catalog: LakeCatalog) -> list[str]:
        found = self.world.iceberg_tables()
        spec = catalog.spec
        wanted = [
            name
            for name in found
            if not spec.include or any(fnmatchcase(name, p) for p in spec.include)
        ]
        return [path for path in wanted if not any(fnmatchcase(path, p) for p in spec.exclude)]

    def _expects(self, item: Manifest, truth: str) -> str | None:
        found = _truth(item, "Ready")
        return None if found == truth else f"{_title(item)}: Ready is not {truth}"


def conditions_of(item: Manifest) -> dict[str, tuple[str, str]]:
    """ConditionStatus and reason of each condition."""
    found = (item.get("status") or {}).get("conditions") or ()
    return {str(entry["type"]): (str(entry["status"]), str(entry["reason"])) for entry in found}


def _truth(item: Manifest, kind: str) -> str:
    return conditions_of(item).get(kind, ("", ""))[0]


def _reason(item: Manifest, kind: str) -> str:
    return conditions_of(item).get(kind, ("", ""))[1]


def _name(item: Manifest) -> str:
    return str(item["metadata"]["name"])


def _title(item: Manifest) -> str:
    conditions = (item.get("status") or {}).get("conditions") or ()
    ready: Manifest = next(
        (condition for condition in conditions if condition["type"] == "Ready"), {}
    )
    said = f"{ready.get('status')} {ready.get('reason')} {str(ready.get('message'))[:200]}"
    return f"{item.get('kind', 'object')} {_name(item)} ({said})"


def owner_of(item: Manifest) -> str:
    """The name of the LakeCatalog that an object belongs to; empty where there is none."""
    owners = item["metadata"].get("ownerReferences") or ()
    return next((str(owner["name"]) for owner in owners), "")


def _base_of(item: Manifest, bases: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    return bases.get(_name(item), item["spec"])


def _changed(item: Manifest, bases: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """The members of a spec that are not as they were at first; all, of one that has no base."""
    base = bases.get(_name(item))
    if base is None:
        return frozenset(name for names in CAUSES.values() for name in names)
    names = {*base, *item["spec"]}
    return frozenset(name for name in names if base.get(name) != item["spec"].get(name))


def _missing_and_ready(item: Manifest, store: Manifest | None) -> bool:
    """Whether a LakeCatalog is Ready whose LakeStore is not there."""
    wanted = item["spec"].get("storeRef")
    is_there = store is not None and store["metadata"]["name"] == wanted
    return not is_there and _truth(item, "Ready") == "True"
