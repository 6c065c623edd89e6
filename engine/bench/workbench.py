"""What every bench needs: the input, both sides warm, a scratch folder, and how often to measure.

One side runs at a time, in turns, and each turn starts from the same state of its table. Rounds
before the first counted one warm both sides up: Java compiles what runs often for about that long.

Figures of a busy machine do not count: other work slows the sides down unequally. A run waits for a
quiet one as long as it is told to, and says in the end whether it began on one.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.data import BenchInput, prepare_input
from bench.floor import Floor
from bench.hudi_side import HudiSide
from bench.measurement import Claim, Limit, Series, TimeLimit, close_report
from bench.quiet import wait_for_quiet
from bench.tideline_side import TidelineSide
from tideline.cache_directory import cache_directory

WARM_UP_ROUNDS = 3
ROUNDS = 5
ROUNDS_QUICK = 2


@dataclass(frozen=True, slots=True)
class Workbench:
    """Both sides, ready; `scratch` is gone when the bench ends."""

    input: BenchInput
    scratch: Path
    rounds: int
    tideline: TidelineSide
    hudi: HudiSide
    floor: Floor

    def fresh_copy(self, table: Path, name: str) -> Path:
        """A copy of a table at `name`, replacing what was there."""
        target = self.fresh(name)
        shutil.copytree(table, target)
        return target

    def fresh(self, name: str) -> Path:
        """A path below the scratch folder where nothing is."""
        target = self.scratch / name
        shutil.rmtree(target, ignore_errors=True)
        return target

    def upsert_by_turns(self, sides: Sequence[Series], tables: Mapping[str, Path]) -> None:
        """Time the same upserts of ours into copies of the tables of some series, by turns."""
        for turn in self.turns():
            source = self.input.changes[(turn or 0) % len(self.input.changes)]
            for series in sides:
                target = self.fresh_copy(tables[series.name], "upsert")
                seconds = self.tideline.write(target, source, operation="upsert")
                if turn is not None:
                    series.add(seconds)

    def turns(self) -> Iterator[int | None]:
        """None for each round that only warms up, then the number of each counted round."""
        yield from [None] * WARM_UP_ROUNDS
        for number in range(self.rounds):
            print(f"  round {number + 1} of {self.rounds}", flush=True)
            yield number


Measure = Callable[[Workbench], tuple[Sequence[Claim], Sequence[Limit | TimeLimit]]]


@contextmanager
def open_workbench(*, rows: int, rounds: int) -> Iterator[Workbench]:
    """Generate the input if need be and start both sides."""
    directory = cache_directory() / "bench"
    prepared = prepare_input(directory, rows=rows)
    with tempfile.TemporaryDirectory(dir=directory, prefix="run-") as folder:
        scratch = Path(folder)
        ours, theirs = scratch / "tideline-process", scratch / "hudi-process"
        ours.mkdir()
        theirs.mkdir()
        with TidelineSide(ours) as tideline, HudiSide(theirs) as hudi, Floor() as floor:
            yield Workbench(prepared, scratch, rounds, tideline, hudi, floor)


def run(measures: Sequence[Measure]) -> int:
    """Measure, print a table, and write the JSON; the exit code of `close_report`."""
    arguments = bench_parser("Tideline compared with Hudi, on this machine").parse_args()
    load = wait_for_quiet(arguments.wait * 60)
    rounds = ROUNDS_QUICK if arguments.quick else ROUNDS
    claims, limits = measure_all(measures, rows=arguments.rows, rounds=rounds)
    return close_report(claims, limits, load_at_start=load, json_path=arguments.json)


def bench_parser(description: str) -> argparse.ArgumentParser:
    """Arguments of every bench: how many rounds and rows, where to write, how long to wait."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help=f"{ROUNDS_QUICK} rounds, not {ROUNDS}")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of the table")
    parser.add_argument("--json", type=Path, help="also write every round to this file")
    parser.add_argument("--wait", type=float, default=0, help="minutes to wait for a quiet machine")
    return parser


def measure_all(
    measures: Sequence[Measure], *, rows: int, rounds: int
) -> tuple[list[Claim], list[Limit | TimeLimit]]:
    """What every measure found, one after another with the same two sides."""
    claims: list[Claim] = []
    limits: list[Limit | TimeLimit] = []
    with open_workbench(rows=rows, rounds=rounds) as bench:
        for measure in measures:
            print(measure.__module__.removeprefix("bench."), flush=True)
            measured, bounded = measure(bench)
            claims += measured
            limits += bounded
    return claims, limits
