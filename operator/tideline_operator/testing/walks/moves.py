"""The moves of a walk: edits, deletions, and what happens to the world around the resources.

Each does one thing, chosen at random, and says what; None where there is nothing to do it to.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping
from typing import Any

import yaml

from tideline_operator.api_objects import (
    LAKE_CATALOGS,
    LAKE_STORES,
    LAKE_TABLES,
    ApiRefusedError,
    ApiResource,
    Manifest,
    Replaced,
)
from tideline_operator.resources.lake_catalog import LakeCatalogSpec
from tideline_operator.resources.lake_store import LakeStoreSpec
from tideline_operator.resources.lake_table import LakeTableSpec
from tideline_operator.testing.resource_examples import (
    EVERYTHING,
    ICEBERG,
    LAKE_CATALOG,
    LAKE_STORE,
)
from tideline_operator.testing.walks.edits import SpecEdits
from tideline_operator.testing.walks.ground import CATALOG, STORE, TABLES, WalkGround
from tideline_operator.testing.walks.pods import PodEnd
from tideline_operator.testing.walks.world import LakeWorld

ICEBERG_NAMES = ("sales.orders", "sales.lines", "tmp.scratch")
Specs = Mapping[tuple[ApiResource, str], Mapping[str, Any]]
_KINDS: Mapping[ApiResource, type] = {
    LAKE_TABLES: LakeTableSpec,
    LAKE_STORES: LakeStoreSpec,
    LAKE_CATALOGS: LakeCatalogSpec,
}
_POLLED_S = 5.0
_EXAMPLES = (EVERYTHING, ICEBERG, LAKE_CATALOG, LAKE_STORE)


class Moves:
    """What can happen, in the world of one walk; `first` are the specs that it begins with."""

    def __init__(
        self, ground: WalkGround, world: LakeWorld, first: Specs, chance: random.Random
    ) -> None:
        self._ground = ground
        self._world = world
        self._first = first
        self._chance = chance
        self._landed = 0
        examples = [yaml.safe_load(text)["spec"] for text in _EXAMPLES]
        self._edits = {
            kind: SpecEdits(
                spec, [*examples, *(item for of, item in first.items() if of[0] is kind)]
            )
            for kind, spec in _KINDS.items()
        }
        self.edited: set[str] = set()

    def all(self) -> dict[Callable[[], str | None], int]:
        """Every move, with how often it is chosen."""
        return {
            self.edit_table: 8,
            self.edit_services: 3,
            self.edit_ingest: 3,
            self.edit_store: 2,
            self.edit_catalog: 3,
            self.revert: 6,
            self.rename_ingest: 2,
            self.remove_ingest: 2,
            self.replace_failing_ingest: 4,
            self.switch: 3,
            self.add_savepoint: 1,
            self.land: 6,
            self.change_pod_end: 5,
            self.delete: 3,
            self.create_again: 4,
            self.drop_bucket: 1,
            self.make_buckets: 2,
            self.change_keys: 2,
            self.take_right: 2,
            self.give_rights: 3,
            self.pause_namespace: 1,
            self.change_iceberg: 2,
        }

    def heal(self) -> None:
        """The world is whole again."""
        self._world.set_up()
        self._ground.pods.end = PodEnd.SUCCEED

    def declare_first(self) -> None:
        """Every object is there as it was created."""
        for (kind, name), spec in self._first.items():
            self._ground.create(kind, name, spec)
            self._replace(kind, name, spec, "the first spec")

    # Edits of specs

    def edit_table(self) -> str | None:
        return self._edit(LAKE_TABLES, self._chance.choice(TABLES))

    def edit_services(self) -> str | None:
        """Of what is declared most is about services and ingests; these are what is edited most."""
        return self._edit(LAKE_TABLES, self._chance.choice(TABLES), "services")

    def edit_ingest(self) -> str | None:
        return self._edit(LAKE_TABLES, self._chance.choice(TABLES), "ingest")

    def edit_store(self) -> str | None:
        return self._edit(LAKE_STORES, STORE)

    def edit_catalog(self) -> str | None:
        return self._edit(LAKE_CATALOGS, CATALOG)

    def revert(self) -> str | None:
        """An object is declared as it was created."""
        kind, name = self._chance.choice(list(self._first))
        return self._replace(kind, name, self._first[kind, name], "the first spec")

    def replace_failing_ingest(self) -> str | None:
        """An ingest fails, and goes before it succeeds."""
        name = self._chance.choice(TABLES)
        spec = self._spec_of(LAKE_TABLES, name)
        if spec is None or not spec.get("ingest"):
            return None
        self._ground.pods.end = PodEnd.FAIL
        self._land_for(name)
        self._ground.advance(_POLLED_S)
        self._ground.until_idle()
        replace = self._chance.choice([self.rename_ingest, self.remove_ingest])
        return f"pods fail, files land for {name}, then {replace(name)}"

    def rename_ingest(self, name: str = "") -> str | None:
        name = name or self._chance.choice(TABLES)
        spec = self._spec_of(LAKE_TABLES, name)
        if spec is None or not spec.get("ingest"):
            return None
        ingest = self._chance.choice(spec["ingest"])
        before = ingest["name"]
        ingest["name"] = f"{before[:30]}r"
        ingest.pop("renamedFrom", None)
        if self._chance.random() < 0.7:
            ingest["renamedFrom"] = before
        return self._replace(LAKE_TABLES, name, spec, f"ingest {before} is renamed")

    def remove_ingest(self, name: str = "") -> str | None:
        name = name or self._chance.choice(TABLES)
        spec = self._spec_of(LAKE_TABLES, name)
        if spec is None or not spec.get("ingest"):
            return None
        gone = spec["ingest"].pop(self._chance.randrange(len(spec["ingest"])))
        return self._replace(LAKE_TABLES, name, spec, f"ingest {gone['name']} is removed")

    def switch(self) -> str | None:
        """Suspended, fenced, or another deletion policy."""
        name = self._chance.choice(TABLES)
        spec = self._spec_of(LAKE_TABLES, name)
        if spec is None:
            return None
        field = self._chance.choice(["suspend", "fenced", "deletionPolicy"])
        if field == "deletionPolicy":
            spec[field] = "Delete" if spec.get(field) != "Delete" else "Retain"
        else:
            spec[field] = not spec.get(field, False)
        return self._replace(LAKE_TABLES, name, spec, f"{field} = {spec[field]}")

    def add_savepoint(self) -> str | None:
        name = self._chance.choice(TABLES)
        spec = self._spec_of(LAKE_TABLES, name)
        if spec is None:
            return None
        savepoints = spec.setdefault("savepoints", [])
        savepoints.append({"name": f"savepoint-{len(savepoints)}"})
        return self._replace(LAKE_TABLES, name, spec, "another savepoint")

    # Objects come and go

    def delete(self) -> str | None:
        kind, name = self._chance.choice(list(self._first))
        item = self._ground.api.get(kind, name, self._ground.namespace)
        if item is None:
            return None
        self._ground.api.delete(kind, name, self._ground.namespace)
        return f"delete {kind.kind} {name} ({item['spec'].get('deletionPolicy', '')})"

    def create_again(self) -> str | None:
        for (kind, name), spec in self._first.items():
            if self._ground.api.get(kind, name, self._ground.namespace) is None:
                self._ground.create(kind, name, spec)
                return f"create {kind.kind} {name}"
        return None

    # The world

    def land(self) -> str | None:
        name = self._chance.choice(TABLES)
        self._land_for(name)
        return f"files land for {name}"

    def change_pod_end(self) -> str | None:
        pods = self._ground.pods
        others = [end for end in PodEnd if end not in (pods.end, PodEnd.SUCCEED)]
        pods.end = PodEnd.SUCCEED if pods.end is not PodEnd.SUCCEED else self._chance.choice(others)
        return f"pods {pods.end.value}"

    def drop_bucket(self) -> str | None:
        world = self._world
        name = self._chance.choice([world.lake, world.landing])
        if name not in world.buckets:
            return None
        world.drop_bucket(name)
        return f"bucket {name} is deleted"

    def make_buckets(self) -> str | None:
        world = self._world
        missing = sorted({world.lake, world.landing} - world.buckets)
        for name in missing:
            world.make_bucket(name)
        return f"buckets {missing} are back" if missing else None

    def change_keys(self) -> str | None:
        world = self._world
        if not world.right_keys:
            world.write_keys(is_right=True)
            return "the right keys"
        if self._chance.random() < 0.5:
            world.drop_keys()
            return "no keys"
        world.write_keys(is_right=False)
        return "wrong keys"

    def take_right(self) -> str | None:
        rights = self._world.rights()
        return "the operator may not " + self._world.take_right(self._chance.choice(rights))

    def give_rights(self) -> str | None:
        if self._world.is_open:
            return None
        self._world.give_rights()
        return "the operator has all rights"

    def pause_namespace(self) -> str | None:
        is_paused = not self._world.is_namespace_paused
        self._world.pause(is_paused=is_paused)
        return "the namespace is paused" if is_paused else "the namespace is not paused any more"

    def change_iceberg(self) -> str | None:
        name = self._chance.choice(ICEBERG_NAMES)
        if name in self._world.iceberg_tables():
            self._world.drop_iceberg(name)
            return f"Iceberg table {name} is dropped"
        self._world.make_iceberg(name)
        return f"Iceberg table {name} is made"

    def _land_for(self, name: str) -> None:
        for _ in range(self._chance.randint(1, 3)):
            self._landed += 1
            self._world.land(f"s3://{self._world.landing}/{name}", f"{self._landed:03}.parquet")

    def _edit(self, kind: ApiResource, name: str, within: str = "") -> str | None:
        spec = self._spec_of(kind, name)
        if spec is None:
            return None
        changed, done = self._edits[kind].edit(spec, self._chance, within)
        return self._replace(kind, name, changed, done)

    def _spec_of(self, kind: ApiResource, name: str) -> dict[str, Any] | None:
        item = self._ground.api.get(kind, name, self._ground.namespace)
        if item is None or item["metadata"].get("deletionTimestamp"):
            return None
        return copy.deepcopy(dict(item["spec"]))

    def _replace(
        self, kind: ApiResource, name: str, spec: Mapping[str, Any], done: str
    ) -> str | None:
        """Write a spec as `kubectl replace` does; a refusal is what happens then."""
        api, namespace = self._ground.api, self._ground.namespace
        for _ in range(10):
            item: Manifest | None = api.get(kind, name, namespace)
            if item is None or item["metadata"].get("deletionTimestamp"):
                return None
            wanted = {**item, "apiVersion": kind.api_version, "kind": kind.kind, "spec": dict(spec)}
            try:
                if not isinstance(api.replace(kind, wanted, namespace), Replaced):
                    continue  # the operator wrote the status meanwhile
            except ApiRefusedError:
                return f"{kind.kind} {name}: {done} (refused)"
            if kind is LAKE_TABLES and spec.get("ingest") != self._first[kind, name].get("ingest"):
                self.edited.add(name)
            return f"{kind.kind} {name}: {done}"
        raise TimeoutError(f"{kind.kind} {name} is written all the time")
