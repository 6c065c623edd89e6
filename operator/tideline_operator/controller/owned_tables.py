"""The LakeTables of a LakeCatalog or LakeSource as objects: whose they are, which are missing and
which are to go.

1. A LakeTable that has the label and the owner reference of an owner is its own. Its name stays,
   whatever other tables come and go.
2. A table that somebody wrote a LakeTable for is left to that; of two owners the older one has it.
3. In an own LakeTable the spec is the owner's, but for `rerun` and `resync`, which ask for one run,
   and for the key, which stays as it was when the table was made. Labels and annotations of others
   stay, such as the one that pauses a table.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tideline.errors import ConfigError
from tideline.storage.kinds import kind_of
from tideline_operator.api_objects import (
    LAKE_CATALOGS,
    LAKE_SOURCES,
    LAKE_TABLES,
    ApiResource,
    Manifest,
)
from tideline_operator.resources.lake_table import LakeTable, LakeTableSpec
from tideline_operator.resources.parsing import parse_object, to_json_object

LABELS: Mapping[str, ApiResource] = {
    "tideline.dev/catalog": LAKE_CATALOGS,
    "tideline.dev/source": LAKE_SOURCES,
}
"""The label of an owned LakeTable has the name of the owner."""
Owner = tuple[str, str]
"""Kind and name."""
Place = tuple[str, ...]
Generation = tuple[str, int]
"""The uid of a LakeTable, and which spec of it."""


@dataclass(frozen=True, slots=True)
class WantedTable:
    """A table that is to have a LakeTable: its name where it was found, the spec, and what names a
    new one, apart from names that are taken. One that is not `made` keeps the LakeTable that it
    has."""

    full_name: str
    spec: LakeTableSpec
    name: Callable[[Container[str]], str]
    is_made: bool = True


@dataclass(frozen=True, slots=True)
class OwnedTables:
    """What an owner has of LakeTables, and what it is to have: `missing` and `changed` are whole
    objects. `own` are the tables that it has then, by the name where they were found, with the uid
    of the LakeTable; empty for one that is missing."""

    missing: tuple[Manifest, ...]
    changed: tuple[Manifest, ...]
    gone: tuple[Manifest, ...]
    own: Mapping[str, str]
    left_to_others: int


def owner_of(table: Manifest) -> Owner | None:
    """Kind and name of what owns this LakeTable; None for one that people wrote."""
    labels = table["metadata"].get("labels") or {}
    owners = {
        (owner.get("kind"), owner.get("name"))
        for owner in table["metadata"].get("ownerReferences") or ()
    }
    named = ((kind.kind, str(labels.get(label))) for label, kind in LABELS.items())
    return next((owner for owner in named if owner in owners), None)


def owner_key(item: Manifest) -> Owner:
    """What `owner_of` says of the LakeTables of `item`."""
    return str(item["kind"]), str(item["metadata"]["name"])


def owned_tables(
    item: Manifest,
    wanted: Iterable[WantedTable],
    tables: Iterable[Manifest],
    owners: Mapping[Owner, Manifest],
    as_wanted: set[Generation],
) -> OwnedTables:
    """Compare; `item` is the owner as an object, `tables` and `owners` all of the namespace. What
    is `as_wanted` is not compared again, and what is found to be so is added."""
    own: dict[Place, Manifest] = {}
    taken: set[Place] = set()
    names: set[str] = set()
    doubled: list[Manifest] = []
    for table in sorted(tables, key=_age):
        place, owner = place_of(table.get("spec") or {}), owner_of(table)
        names.add(str(table["metadata"]["name"]))
        if owner == owner_key(item):
            if place in own:
                doubled.append(table)
            own.setdefault(place, table)
        elif owner is None or is_older(owners.get(owner), item):
            taken.add(place)
    missing: list[Manifest] = []
    changed: list[Manifest] = []
    kept: dict[Place, tuple[str, str]] = {}
    left_to_others = 0
    for found in wanted:
        place = place_of(to_json_object(found.spec))
        known = own.get(place)
        if place in taken:
            left_to_others += found.is_made
        elif known is not None:
            kept[place] = found.full_name, str(known["metadata"]["uid"])
            if found.is_made and _generation(known) not in as_wanted:
                better = _as_wanted(item, known, found.spec)
                if better is None:
                    as_wanted.add(_generation(known))
                else:
                    changed.append(better)
        elif found.is_made:
            kept[place] = found.full_name, ""
            name = found.name(names)
            names.add(name)
            missing.append(_manifest(item, name, found.spec))
    gone = [table for place, table in own.items() if place not in kept]
    return OwnedTables(
        tuple(missing),
        tuple(changed),
        (*gone, *doubled),
        dict(kept.values()),
        left_to_others,
    )


def place_of(spec: Mapping[str, Any]) -> Place:
    """Where the table of a LakeTable's spec is, spelled alike for the same place."""
    catalog = spec.get("catalog")
    if isinstance(catalog, Mapping):
        server = str(catalog.get("uri") or catalog.get("name") or "lake").rstrip("/")
        return "catalog", str(catalog.get("type")), server, str(catalog.get("table"))
    location = str(spec.get("location") or "").rstrip("/")
    scheme, separator, path = location.partition("://")
    kind = kind_of(scheme) if separator else None
    return "folder", location if kind is None else f"{kind.scheme}://{path}"


def _age(table: Manifest) -> tuple[str, str]:
    metadata = table["metadata"]
    return str(metadata.get("creationTimestamp", "")), str(metadata["name"])


def _generation(table: Manifest) -> Generation:
    metadata = table["metadata"]
    return str(metadata["uid"]), int(metadata.get("generation") or 0)


def is_older(other: Manifest | None, item: Manifest) -> bool:
    """Whether there is another one, which is older."""
    return other is not None and _age(other) < _age(item)


def _as_wanted(item: Manifest, known: Manifest, spec: LakeTableSpec) -> Manifest | None:
    """The object with the owner's spec; None when it has that already."""
    present = known.get("spec") or {}
    try:
        spec = replace(
            spec,
            rerun=dict(present.get("rerun") or {}),
            resync=dict(present.get("resync") or {}),
            record_key=tuple(present.get("recordKey") or ()),
        )
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
            "labels": {_label_of(item): item["metadata"]["name"]},
            "ownerReferences": [_owner(item)],
        },
        "spec": to_json_object(spec),
    }


def _owner(item: Manifest) -> Manifest:
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "controller": True,
    }


def _label_of(item: Manifest) -> str:
    return next(label for label, kind in LABELS.items() if kind.kind == item["kind"])
