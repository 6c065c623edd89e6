"""Writers in processes of their own that write down what they committed.

Put in the order of their instants the reports say what the table must hold: per key no two commits
overlap in time, because the later one is refused.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tideline.errors import ConflictError
from tideline.storage.location import StoreLocation
from tideline.testing.small_table import SmallTable, batch

SHARED_KEYS = range(24)
"""Keys that every writer writes."""

_OWN_KEYS = 12
_CONFLICTS_MAX = 200


@dataclass(frozen=True, slots=True)
class WriterJob:
    """What one writer does: `number` makes its keys and values its own."""

    location: StoreLocation
    number: int
    options: Mapping[str, str]

    @property
    def own_keys(self) -> range:
        """Keys that no other writer writes."""
        return range(100 * self.number, 100 * self.number + _OWN_KEYS)


@dataclass(frozen=True, slots=True)
class Report:
    """One commit as its writer reports it: the keys and their new value, None when deleted."""

    instant: str
    keys: tuple[str, ...]
    value: int | None

    @classmethod
    def parse(cls, line: str) -> Report:
        instant, keys, value = json.loads(line)
        return cls(instant, tuple(keys), value)

    def __str__(self) -> str:
        return json.dumps([self.instant, list(self.keys), self.value])


def write_until(job: WriterJob, stop: str, diary: str) -> None:
    """Upsert and delete until the file `stop` exists; each commit is a line of the file `diary`.

    Upserts take shared keys, own keys or both; deletes own keys. A write that met a conflict is
    made again.
    """
    random = Random(job.number)
    table = SmallTable(job.location)
    value = job.number
    with Path(diary).open("a") as lines:
        while not Path(stop).exists():
            value += 10
            operation = "delete" if random.random() < 0.15 else "upsert"
            keys = set(random.sample(job.own_keys, random.randint(1, 4)))
            if operation == "upsert" and random.random() < 0.7:
                keys |= set(random.sample(SHARED_KEYS, random.randint(1, 3)))
            rows = batch(sorted(keys), value)
            instant = _write(table, operation, rows, job.options, random)
            kept = value if operation == "upsert" else None
            names = tuple(rows.column("id").to_pylist())
            lines.write(f"{Report(instant, names, kept)}\n")
            lines.flush()
            time.sleep(random.uniform(0, 0.1))


def read_reports(diaries: Iterable[Path]) -> list[Report]:
    """All commits so far, in the order of their instants."""
    return sorted(_lines(diaries), key=lambda report: report.instant)


def expected_values(reports: Iterable[Report]) -> list[tuple[str, int]]:
    """What a table holds after these commits, sorted by key."""
    rows: dict[str, int] = {}
    for report in reports:
        for key in report.keys:
            if report.value is None:
                rows.pop(key, None)
            else:
                rows[key] = report.value
    return sorted(rows.items())


def _write(
    table: SmallTable, operation: str, rows: object, options: Mapping[str, str], random: Random
) -> str:
    for attempts_left in range(_CONFLICTS_MAX, -1, -1):
        try:
            return table.write(operation, rows, options=options).instant
        except ConflictError:
            if attempts_left == 0:
                raise
            time.sleep(random.uniform(0.01, 0.1))
    raise AssertionError("not reached")


def _lines(diaries: Iterable[Path]) -> Iterator[Report]:
    for diary in diaries:
        for line in diary.read_text().splitlines():
            yield Report.parse(line)
