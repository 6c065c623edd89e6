"""The LakeTables of a LakeCatalog as objects: whose they are, which are missing, which are to go.

1. A LakeTable that has the label and the owner reference of a catalog is its own. Its name stays,
   whatever other tables come and go.
2. A table that somebody wrote a LakeTable for is left to that; of two LakeCatalogs the older one
   has it.
3. In an own LakeTable the spec is the catalog's, but for `rerun`, which asks for one run. Labels
   and annotations of others stay, such as the one that pauses a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tideline.errors import ConfigError
from tideline.iceberg.table.found_table import FoundTable
from tideline_operator.api_objects import LAKE_CATALOGS, LAKE_TABLES, Manifest
from tideline_operator.decide.catalog_plan import resource_name
from tideline_operator.resources.lake_catalog import LakeCatalog
from tideline_operator.resources.lake_table import LakeTable, LakeTableSpec
from tideline_operator.resources.parsing import parse_object, to_json_object

CATALOG_LABEL = "tideline.dev/catalog"
Place = tuple[str, ...]
Generation = tuple[str, int]
"""The uid of a LakeTable, and which spec of it."""


@dataclass(frozen=True, slots=True)
class OwnedTables:
    """What a catalog has of LakeTables, and what it is to have: `missing` and `changed` are whole
    objects."""

    missing: tuple[Manifest, ...]
    changed: tuple[Manifest, ...]
    gone: tuple[Manifest, ...]
    left_to_others: int


def owner_of(table: Manifest) -> str | None:
    """The name of the LakeCatalog whose LakeTable this is; None for one that people wrote."""
    label = (table["metadata"].get("labels") or {}).get(CATALOG_LABEL)
    owners = table["metadata"].get("ownerReferences") or ()
    is_owned = any(
        owner.get("kind") == LAKE_CATALOGS.kind and owner.get("name") == label for owner in owners
    )
    return str(label) if is_owned else None


def owned_tables(
    item: Manifest,
    catalog: LakeCatalog,
    wanted: Iterable[FoundTable],
    tables: Iterable[Manifest],
    catalogs: Mapping[str, Manifest],
    as_wanted: set[Generation],
) -> OwnedTables:
    """Compare; `item` is the catalog as an object, `tables` and `catalogs` all of the namespace.
    What is `as_wanted` is not compared again, and what is found to be so is added."""
    own: dict[Place, Manifest] = {}
    taken: set[Place] = set()
    names: set[str] = set()
    doubled: list[Manifest] = []
    for table in sorted(tables, key=_age):
        place, owner = place_of(table.get("spec") or {}), owner_of(table)
        names.add(str(table["metadata"]["name"]))
        if owner == catalog.metadata.name:
            if place in own:
                doubled.append(table)
            own.setdefault(place, table)
        elif owner is None or _is_older(catalogs.get(owner), item):
            taken.add(place)
    missing: list[Manifest] = []
    changed: list[Manifest] = []
    kept: set[Place] = set()
    left_to_others = 0
    for found in wanted:
        spec = catalog.table(catalog.metadata.name, found.parts).spec
        place = place_of(to_json_object(spec))
        if place in taken:
            left_to_others += 1
            continue
        kept.add(place)
        known = own.get(place)
        if known is None:
            name = resource_name(catalog, found, names)
            names.add(name)
            missing.append(_manifest(item, name, spec))
        elif _generation(known) not in as_wanted:
            better = _as_wanted(item, known, spec)
            if better is None:
                as_wanted.add(_generation(known))
            else:
                changed.append(better)
    gone = [table for place, table in own.items() if place not in kept]
    return OwnedTables(tuple(missing), tuple(changed), (*gone, *doubled), left_to_others)


def place_of(spec: Mapping[str, Any]) -> Place:
    """Where the table of a LakeTable's spec is, spelled alike for the same place."""
    catalog = spec.get("catalog")
    if isinstance(catalog, Mapping):
        server = str(catalog.get("uri") or catalog.get("name") or "lake").rstrip("/")
        return "catalog", str(catalog.get("type")), server, str(catalog.get("table"))
    location = str(spec.get("location") or "").rstrip("/")
    scheme, separator, path = location.partition("://")
    return "folder", f"s3://{path}" if separator and scheme == "s3a" else location


def _age(table: Manifest) -> tuple[str, str]:
    metadata = table["metadata"]
    return str(metadata.get("creationTimestamp", "")), str(metadata["name"])


def _generation(table: Manifest) -> Generation:
    metadata = table["metadata"]
    return str(metadata["uid"]), int(metadata.get("generation") or 0)


def _is_older(other: Manifest | None, item: Manifest) -> bool:
    return other is not None and _age(other) < _age(item)


def _as_wanted(item: Manifest, known: Manifest, spec: LakeTableSpec) -> Manifest | None:
    """The object with the catalog's spec; None when it has that already."""
    rerun = (known.get("spec") or {}).get("rerun") or {}
    try:
        spec = replace(spec, rerun=dict(rerun))
        if parse_object(LakeTable, known).spec == spec and _is_owned_by(item, known):
            return None
    except ConfigError:
        pass  # somebody made it what this version refuses
    wanted = _manifest(item, str(known["metadata"]["name"]), spec)
    labels = {**(known["metadata"].get("labels") or {}), **wanted["metadata"]["labels"]}
    metadata = {**known["metadata"], "labels": labels}
    return {**wanted, "metadata": {**metadata, "ownerReferences": [_owner(item)]}}


def _is_owned_by(item: Manifest, table: Manifest) -> bool:
    owners = table["metadata"].get("ownerReferences") or ()
    return any(owner.get("uid") == item["metadata"].get("uid") for owner in owners)


def _manifest(item: Manifest, name: str, spec: LakeTableSpec) -> Manifest:
    return {
        "apiVersion": LAKE_TABLES.api_version,
        "kind": LAKE_TABLES.kind,
        "metadata": {
            "name": name,
            "namespace": item["metadata"]["namespace"],
            "labels": {CATALOG_LABEL: item["metadata"]["name"]},
            "ownerReferences": [_owner(item)],
        },
        "spec": to_json_object(spec),
    }


def _owner(item: Manifest) -> Manifest:
    return {
        "apiVersion": LAKE_CATALOGS.api_version,
        "kind": LAKE_CATALOGS.kind,
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "controller": True,
    }
