"""Random schedules of writers, readers, deaths and recoveries, each repeatable from its seed.

`TIDELINE_SEED=<n>` runs one seed alone, `TIDELINE_RUNS=<n>` so many.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tideline.errors import StorageUnavailableError
from tideline.storage.memory.store import MemoryStore
from tideline.testing.fault_counts import FaultClass
from tideline.testing.faulty_store import SimulatedCrash
from tideline.testing.simulated_lake import check_run
from tideline.testing.simulator import Hazards, SimulatedProcess, Simulation

RUNS = int(os.environ.get("TIDELINE_RUNS", "200"))
BLOCK = 25
HAZARDOUS = {
    FaultClass.CRASH_BEFORE_WRITE,
    FaultClass.DELAY,
    FaultClass.UNAVAILABLE,
    FaultClass.LOST_REPLY,
}


def seeds(start: int) -> range:
    chosen = os.environ.get("TIDELINE_SEED")
    if chosen is not None:
        return range(int(chosen), int(chosen) + 1) if start == 0 else range(0)
    return range(start, min(start + BLOCK, RUNS))


@pytest.mark.slow_with("v9-100", "v9-125", "v9-150", "v9-175", "v9-50", "v9-75", "v9-25")
@pytest.mark.parametrize("start", range(0, RUNS, BLOCK))
def test_a_reader_sees_exactly_the_committed_rows(start: int) -> None:
    lakes = [check_run(seed) for seed in seeds(start)]
    if len(lakes) == BLOCK:
        assert sum(lake.commits for lake in lakes) > BLOCK, "the runs do too little"
        assert sum(lake.reads for lake in lakes) > BLOCK
        suffered = sum((lake.simulation.fired for lake in lakes), Counter[FaultClass]())
        assert set(suffered) == HAZARDOUS, "a fault that never comes proves nothing"


# The simulator itself


def wandering(process: SimulatedProcess) -> None:
    store = process.store_on(MemoryStore("wandering"))
    for number in range(20):
        try:
            store.put(f"{process.name}/{number}", b"")
        except StorageUnavailableError:
            process.clock.sleep(5)


def history_of(seed: int) -> list[str]:
    hazards = Hazards(crash=0.05, sleep=0.05, unavailable=0.1, lost_reply=0.1)
    simulation = Simulation(seed, hazards)
    for name in ("a", "b", "c"):
        simulation.spawn(name, wandering)
    simulation.run()
    MemoryStore.forget("wandering")
    return simulation.history


def test_a_seed_always_gives_the_same_history() -> None:
    assert history_of(7) == history_of(7)
    assert history_of(7) != history_of(8)


def test_time_passes_without_waiting() -> None:
    simulation = Simulation(1)
    woken: list[int] = []

    def sleep(process: SimulatedProcess) -> None:
        process.clock.sleep(86_400)
        woken.append(process.clock.now_ms())

    simulation.spawn("sleeper", sleep)
    began_ms = simulation.time_ms
    simulation.run()
    assert woken[0] - began_ms >= 86_400_000


def test_what_repeats_stops_in_a_sleep_and_with_death() -> None:
    simulation = Simulation(1, Hazards(0, 0, 0, 0))
    beats: list[float] = []

    def beat() -> bool:
        beats.append(simulation.time_ms)
        return True

    def live_and_die(process: SimulatedProcess) -> None:
        process.clock.repeat(10, beat)
        for _ in range(6):
            process.clock.sleep(10)
        raise SimulatedCrash("dead")

    simulation.spawn("beating", live_and_die)
    simulation.spawn("outliving", lambda process: process.clock.sleep(600))
    simulation.run()
    assert 5 <= len(beats) <= 7


def test_what_a_process_raises_ends_the_run() -> None:
    simulation = Simulation(1)

    def fail(_process: SimulatedProcess) -> None:
        raise ValueError("a bug")

    def stay(process: SimulatedProcess) -> None:
        while True:
            process.clock.sleep(1)

    simulation.spawn("failing", fail)
    staying = simulation.spawn("staying", stay)
    with pytest.raises(ValueError, match="a bug"):
        simulation.run()
    assert staying.has_ended
