"""Random writes, services and deaths on a small table, and what must hold after each step."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterable

from tideline.heartbeat_limits import DEFAULT_LIMITS
from tideline.hudi.check.run import check_table
from tideline.hudi.open_table import open_table
from tideline.testing.faulty_store import FaultPlan, FaultyStore, SimulatedCrash
from tideline.testing.small_table import ONCE, SmallTable, batch

_SETTINGS = {**ONCE, "hoodie.clean.commits.retained": "1"}


def work_at_random(
    small: SmallTable,
    chance: random.Random,
    assert_right: Callable[[SmallTable], None],
    *,
    writes_max: int,
) -> None:
    """Work on three partitions, and drop one; deaths come before so many writes of the store. A
    check of the table has nothing to say in the end."""
    for v in range(1, 14):
        keys = chance.sample(range(20), chance.randrange(1, 6))
        work = chance.choice(("upsert", "upsert", "delete", "insert_overwrite", "service", "die"))
        if work == "service":
            service = chance.choice(("cleaning", "clustering", "compaction"))
            small.lake().run(service, options=_SETTINGS)
        elif work == "die":
            die(small, keys, v, chance.randrange(1, writes_max))
        else:
            small.write(work, batch(keys, v, partitions=3))
        assert_right(small)
    small.lake().delete_partitions(["p1"])
    small.lake().run("cleaning", options={"hoodie.clean.commits.retained": "1"})
    assert_right(small)
    table = open_table(small.location, small.clock, small.store())
    assert not [finding for finding in check_table(table) if finding.check != "leftovers"]


def die(small: SmallTable, keys: Iterable[int], v: int, writes: int) -> None:
    """Die in a write, and let the next writer roll it back."""
    dying = FaultyStore(small.store(), FaultPlan(crash_after_write=writes))
    with contextlib.suppress(SimulatedCrash):
        small.write("upsert", batch(keys, v, partitions=3), store=dying)
    small.fake_clock.advance(DEFAULT_LIMITS.silent_s_max + 60)
    small.write("upsert", batch([1], v, partitions=3))
