"""A walk: random moves, and after each of them the check that all is as the model says.

After a move the clock is set forward in growing steps until every status is right, so that no wait
of the operator costs a test its time; how far it may be set is what "soon" means here. A walk is
repeated by its seed.
"""

from __future__ import annotations

import json
import random
import time

from tideline.storage.probe.left_behind import CHECKS_FOLDER
from tideline_operator.api_objects import (
    JOBS,
    LAKE_CATALOGS,
    LAKE_STORES,
    LAKE_TABLES,
    Manifest,
)
from tideline_operator.testing.walks.ground import TABLES, WalkGround, first_specs
from tideline_operator.testing.walks.model import WalkModel, conditions_of, owner_of
from tideline_operator.testing.walks.moves import ICEBERG_NAMES, Moves
from tideline_operator.testing.walks.pods import PodEnd

SEEN_WITHIN_S = 30.0
"""By then a status is about the newest spec."""
TRUE_WITHIN_S = 3 * 3600.0
"""By then every condition is true, whatever was retried before with growing delays."""
_JUMPS_S = (2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 120.0, 300.0, 600.0)
_OF_A_CHECK = f"{CHECKS_FOLDER}/"
"""What a check of the store writes, and a restart may leave there."""
_LOOKS_MAX, _LOOK_LASTS_S = 10, 2.0
_KINDS = (LAKE_TABLES, LAKE_CATALOGS, LAKE_STORES)


class Walk:
    """One walk on a ground that others walked on before."""

    def __init__(self, ground: WalkGround, seed: int) -> None:
        self.seed = seed
        self.steps: list[str] = []
        self._ground = ground
        self._chance = random.Random(seed)
        self._world = ground.begin(f"walk-{ground.namespace}-{seed}")
        first = first_specs(self._world)
        self._moves = Moves(ground, self._world, first, self._chance)
        for name in ICEBERG_NAMES[:2]:
            self._world.make_iceberg(name)
        made = {key: ground.create(*key, spec)["spec"] for key, spec in first.items()}
        bases = {name: spec for (kind, name), spec in made.items() if kind is LAKE_TABLES}
        self._model = WalkModel(self._world, ground.pods, bases, edited=self._moves.edited)

    def run(self, moves: int) -> None:
        """So many moves; then everything heals, is checked once more, and is deleted."""
        try:
            self._settle()
            for _ in range(moves):
                self._step()
                self._settle()
                if self._chance.random() < 0.15:
                    self._restart()
            self._end()
        except AssertionError as error:
            steps = "\n".join(f"{number:3} {step}" for number, step in enumerate(self.steps, 1))
            repeat = f"Repeat it with TIDELINE_SEED={self.seed} TIDELINE_MOVES={moves}"
            raise AssertionError(f"{error}\nafter\n{steps}\n{repeat}\n{self._shown()}") from error
        finally:
            self._clear()

    def _step(self) -> None:
        moves = self._moves.all()
        while True:
            (move,) = self._chance.choices(list(moves), list(moves.values()))
            done = move()
            if done is not None:
                self.steps.append(done)
                return

    def _settle(self) -> None:
        """Wait until the model has no objection any more."""
        waited_s, jumps = 0.0, iter(_JUMPS_S)
        while True:
            self._ground.until_idle()
            late, fault = self._faults()
            if late is None and fault is None:
                break
            if late is not None and waited_s >= SEEN_WITHIN_S:
                raise AssertionError(f"not within {SEEN_WITHIN_S:.0f} s: {late}")
            if waited_s >= TRUE_WITHIN_S:
                raise AssertionError(f"{fault or late}")
            jump_s = next(jumps, _JUMPS_S[-1])
            waited_s += jump_s
            self._ground.advance(jump_s)
        assert not self._ground.pods.twice, self._ground.pods.twice

    def _faults(self) -> tuple[str | None, str | None]:
        """A status that is behind, and one that is not true."""
        tables = self._ground.all(LAKE_TABLES)
        stores = self._ground.all(LAKE_STORES)
        catalogs = self._ground.all(LAKE_CATALOGS)
        self._forget_lost_tables()
        self._model.store = next(iter(stores), None)
        leaving = [item for item in tables if item["metadata"].get("deletionTimestamp")]
        faults = [f"{item['metadata']['name']} is not deleted" for item in leaving]
        tables = [item for item in tables if item not in leaving]
        late = [self._model.behind(item) for item in (*tables, *catalogs)]
        faults += filter(None, map(self._model.table_fault, tables))
        faults += filter(None, (self._model.store_fault(item, tables) for item in stores))
        faults += filter(None, (self._model.catalog_fault(item, tables) for item in catalogs))
        return next(filter(None, late), None), next(iter(faults), None)

    def _forget_lost_tables(self) -> None:
        for name in TABLES:
            location = f"s3://{self._world.lake}/{name}"
            if not self._world.objects_below(f"{location}/.hoodie"):
                self._ground.pods.forget_table(location)
                self._moves.edited.discard(name)

    def _restart(self) -> None:
        """A restart of the operator changes nothing, where nothing is under way."""
        pods = self._ground.pods
        before, ran = self._lasting_conditions(), pods.ran
        self._ground.restart()
        self.steps.append("the operator is restarted")
        self._ground.until_idle()
        if pods.end is PodEnd.SUCCEED and pods.ran == ran:
            after = self._conditions()
            changed = {name: after.get(name) for name in before if after.get(name) != before[name]}
            assert not changed, f"a restart changed {changed}, which was\n{before}"
        self._settle()

    def _lasting_conditions(self) -> dict[str, dict[str, tuple[str, str]]]:
        """Those that another look at every table, store and right leaves as they are."""
        before = self._conditions()
        for _ in range(_LOOKS_MAX):
            self._ground.advance(_JUMPS_S[-1])
            time.sleep(_LOOK_LASTS_S)
            self._ground.until_idle()
            after = self._conditions()
            # What has none yet was not looked at.
            if after == before and all(after.values()):
                break
            before = after
        return before

    def _conditions(self) -> dict[str, dict[str, tuple[str, str]]]:
        """Without LakeTables of dropped Iceberg tables: they go when the catalog is listed next."""
        return {
            f"{kind.kind} {item['metadata']['name']}": conditions_of(item)
            for kind in _KINDS
            for item in self._ground.all(kind)
            if not self._is_dropped(item)
        }

    def _is_dropped(self, item: Manifest) -> bool:
        if not owner_of(item):
            return False
        name = ".".join(str(item["spec"]["location"]).rsplit("/", 2)[1:])
        return name not in self._world.iceberg_tables()

    def _end(self) -> None:
        self._moves.heal()
        self.steps.append("everything heals")
        self._moves.declare_first()
        self._settle()
        kept = f"s3://{self._world.lake}/{TABLES[1]}/.hoodie"
        had_table = bool(self._world.objects_below(kept))
        for name in TABLES:
            self._ground.api.delete(LAKE_TABLES, name, self._ground.namespace)
        self.steps.append("both tables are deleted")
        self._settle()
        has_table = bool(self._world.objects_below(kept))
        assert has_table == had_table, "deletionPolicy: Retain deleted data"
        below = self._world.objects_below(f"s3://{self._world.lake}/{TABLES[0]}")
        left = [path for path in below if not path.startswith(_OF_A_CHECK)]
        assert not left, f"deletionPolicy: Delete left {left}"

    def _clear(self) -> None:
        """Take everything away for the next walk, whatever state it is in."""
        self._ground.pods.end = PodEnd.SUCCEED
        self._world.give_rights()
        self._ground.case.until(self._is_clear, "everything is taken away", 60.0)
        self._ground.pods.twice.clear()
        self._world.tear_down()

    def _is_clear(self) -> bool:
        api, namespace = self._ground.api, self._ground.namespace
        left = [(kind, item) for kind in (*_KINDS, JOBS) for item in self._ground.all(kind)]
        for kind, item in left:
            name = str(item["metadata"]["name"])
            if kind is not JOBS:
                api.delete(kind, name, namespace)
                api.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
        return not left

    def _shown(self) -> str:
        items: list[Manifest] = [item for kind in _KINDS for item in self._ground.all(kind)]
        for item in items:
            item["metadata"].pop("managedFields", None)
        return "\n".join(json.dumps(item)[:6_000] for item in items)
