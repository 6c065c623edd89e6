"""Writers that write one Iceberg table of a REST catalog at the same moment, and what they note.

Each has ids of its own that lie between those of the other, so that no range of ids tells their
files apart. Every attempt has a number, which its rows carry: a row says which attempt wrote it.
What a writer was answered is a line of its diary. A writer never is more than `_AHEAD` commits
before the other.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ValidationException,
)
from requests import ConnectionError as NoAnswerError

import tideline
from tideline.errors import ConflictError, UnknownOutcomeError
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.json_line_process import PeerFailureError

COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("part", pa.string(), nullable=False),
        pa.field("attempt", pa.int64(), nullable=False),
    ]
)
PARTS = ("a", "b")
ACKNOWLEDGED, REFUSED, IN_DOUBT = "acknowledged", "refused", "in doubt"
_IDS = 100_000
_AHEAD = 2
_ADDS, _ADDS_WHERE_GIVEN = 0.55, 0.1
"""The share of commits that only add rows."""
_PATIENCE_S = 40.0
_PAUSE_S = 3.0
_REFUSED_BY_SPARK = re.compile("ValidationException|CommitFailedException|Found conflicting files")
_UNANSWERED_IN_SPARK = re.compile("CommitStateUnknown|RESTException|Error occurred while process")


class RefusedError(Exception):
    """Another writer was first: nothing of the attempt may be there."""


class InDoubtError(Exception):
    """Nobody said whether the attempt took place."""


class LiveWriter(Protocol):
    """One way to write. Its methods raise RefusedError and InDoubtError."""

    def append(self, rows: pa.Table) -> None:
        """Add rows with new ids."""

    def upsert(self, rows: pa.Table) -> None:
        """Put rows in the places of those with the same ids."""

    def delete(self, ids: Sequence[int]) -> None:
        """Take the rows with these ids out."""


@dataclass(frozen=True, slots=True)
class LiveJob:
    """What a writer does: `number`, 0 or 1, makes its ids and attempts its own. `given` are ids of
    its own that are there already, by an attempt of that number: it changes these more often than
    it adds others."""

    number: int
    commits: int
    diary: Path
    diary_of_the_other: Path
    seed: int
    given: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt with what was there of its ids before, and is there after: the attempt that wrote
    each, None where there is no row."""

    change: str
    before: Mapping[int, int | None]
    after: Mapping[int, int | None]
    outcome: str
    began_ms: float
    ended_ms: float

    @classmethod
    def parse(cls, line: str) -> Attempt:
        found = json.loads(line)
        for name in ("before", "after"):
            found[name] = {int(number): value for number, value in found[name].items()}
        return cls(**found)

    @property
    def line(self) -> str:
        """Of a diary."""
        return json.dumps(asdict(self)) + "\n"


class OurWriter:
    """Tideline, in this process."""

    def __init__(self, uri: str, name: str) -> None:
        self._table = tideline.open_iceberg(name, catalog=uri)

    def append(self, rows: pa.Table) -> None:
        self._write(rows, "append")

    def upsert(self, rows: pa.Table) -> None:
        self._write(rows, "upsert")

    def delete(self, ids: Sequence[int]) -> None:
        self._write(pa.table({"id": pa.array(ids, pa.int64())}), "delete")

    def _write(self, rows: pa.Table, operation: Any) -> None:
        try:
            self._table.write(rows, operation)
        except ConflictError as error:
            raise RefusedError from error
        except UnknownOutcomeError as error:
            raise InDoubtError from error


class PyIcebergWriter:
    """PyIceberg, in this process."""

    def __init__(self, uri: str, name: str) -> None:
        self._table = RestCatalog("live", uri=uri).load_table(name)

    def append(self, rows: pa.Table) -> None:
        self._commit(lambda table: table.append(rows))

    def upsert(self, rows: pa.Table) -> None:
        ids = rows["id"].to_pylist()
        self._commit(lambda table: table.overwrite(rows, _among(ids)))

    def delete(self, ids: Sequence[int]) -> None:
        self._commit(lambda table: table.delete(_among(ids)))

    def _commit(self, change: Any) -> None:
        self._table.refresh()
        try:
            change(self._table)
        except (CommitFailedException, ValidationException) as error:
            raise RefusedError from error
        except (CommitStateUnknownException, NoAnswerError) as error:
            raise InDoubtError from error


class SparkWriter:
    """Iceberg's Spark runtime, in the process of the peer."""

    def __init__(self, peer: IcebergPeer, uri: str, name: str) -> None:
        catalog = f"live_{name.replace('.', '_')}"
        peer.add_catalog(catalog, {"type": "rest", "uri": uri})
        self._peer, self._name = peer, f"{catalog}.{name}"

    def append(self, rows: pa.Table) -> None:
        self._run(f"insert into {self._name} {_values(rows)}")

    def upsert(self, rows: pa.Table) -> None:
        self._run(
            f"merge into {self._name} t using ({_values(rows)}) s on t.id = s.id "
            "when matched then update set * when not matched then insert *"
        )

    def delete(self, ids: Sequence[int]) -> None:
        self._run(f"delete from {self._name} where {_among(ids)}")

    def _run(self, statement: str) -> None:
        try:
            self._peer.run(statement)
        except PeerFailureError as error:
            if _REFUSED_BY_SPARK.search(str(error)):
                raise RefusedError from error
            if _UNANSWERED_IN_SPARK.search(str(error)):
                raise InDoubtError from error
            raise


def write_live(writer: LiveWriter, job: LiveJob) -> None:
    """Commit `job.commits` times; what is refused is drawn again as another attempt."""
    chance = Random(job.seed * 2 + job.number)
    there = dict.fromkeys(job.given, job.number)
    adds = _ADDS if not job.given else _ADDS_WHERE_GIVEN
    unused = [2 * number + job.number for number in chance.sample(range(_IDS), 2_000)]
    number, commits = job.number, 0
    with job.diary.open("a", encoding="utf-8") as lines:
        while commits < job.commits:
            takes_s = _wait_for_the_other(job, commits)
            time.sleep(chance.uniform(0, takes_s))
            number += 2
            attempt = _attempted(writer, chance, number, there, unused, adds)
            lines.write(attempt.line)
            lines.flush()
            commits += attempt.outcome != REFUSED
            for found, value in attempt.after.items():
                # Ids in doubt are left alone from here on.
                if attempt.outcome == IN_DOUBT or (attempt.outcome == ACKNOWLEDGED and not value):
                    there.pop(found, None)
                elif attempt.outcome == ACKNOWLEDGED and value:
                    there[found] = value


def write_live_here(kind: str, uri: str, name: str, job: LiveJob) -> None:
    """The whole life of a process that writes as `tideline` or as `pyiceberg`."""
    writer = OurWriter(uri, name) if kind == "tideline" else PyIcebergWriter(uri, name)
    write_live(writer, job)


def attempts_in(diary: Path) -> list[Attempt]:
    """All that a writer has tried so far."""
    text = diary.read_text(encoding="utf-8") if diary.exists() else ""
    return [Attempt.parse(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def what_is_wrong(attempts: Iterable[Attempt], rows: pa.Table) -> list[str]:
    """What a reader sees that the diaries contradict: rows twice, acknowledged ones that are not
    there, others that are, and attempts in doubt that are there by halves."""
    pairs = list(zip(rows["id"].to_pylist(), rows["attempt"].to_pylist(), strict=True))
    found: dict[int, int] = dict(pairs)
    wrong = [] if len(pairs) == len(found) else [f"{len(pairs) - len(found)} rows are there twice"]
    expected: dict[int, int | None] = {}
    for attempt in attempts:
        seen = {number: found.get(number) for number in attempt.after}
        if attempt.outcome == IN_DOUBT:
            if seen not in (attempt.before, attempt.after):
                wrong.append(f"by halves: {attempt} is {seen}")
            expected |= seen
        elif attempt.outcome == ACKNOWLEDGED:
            expected |= attempt.after
    there = {number: value for number, value in expected.items() if value is not None}
    wrong += [f"lost: {pair}" for pair in sorted(there.items() - found.items())]
    return wrong + [f"not expected: {pair}" for pair in sorted(found.items() - there.items())]


def _attempted(
    writer: LiveWriter,
    chance: Random,
    number: int,
    there: dict[int, int],
    unused: list[int],
    adds: float,
) -> Attempt:
    own = sorted(there)
    draw = chance.random() if len(own) > 8 else 0.0
    new = [unused.pop() for _ in range(chance.randrange(1, 6))]
    some = chance.sample(own, min(len(own), chance.randrange(1, 4)))
    if draw < adds:
        change, ids = "append", new
    else:
        change, ids = ("upsert", some + new[:2]) if draw < 0.8 else ("delete", some)
    began_ms, outcome = time.time() * 1000, ACKNOWLEDGED
    try:
        if change == "delete":
            writer.delete(ids)
        else:
            parts = [chance.choice(PARTS) for _ in ids]
            rows = pa.table([ids, parts, [number] * len(ids)], schema=COLUMNS)
            (writer.append if change == "append" else writer.upsert)(rows)
    except RefusedError:
        outcome = REFUSED
    except InDoubtError:
        outcome = IN_DOUBT
    after = dict.fromkeys(ids, None if change == "delete" else number)
    before = {found: there.get(found) for found in ids}
    return Attempt(change, before, after, outcome, began_ms, time.time() * 1000)


def _wait_for_the_other(job: LiveJob, commits: int) -> float:
    """How long its last attempt took, up to `_PAUSE_S`: this one's may fall anywhere into one."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        attempts = attempts_in(job.diary_of_the_other)
        theirs = sum(entry.outcome != REFUSED for entry in attempts)
        if commits <= theirs + _AHEAD:
            last_ms = attempts[-1].ended_ms - attempts[-1].began_ms if attempts else 0.0
            return min(last_ms / 1000, _PAUSE_S)
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"the other writer stays at {theirs} commits")
        time.sleep(0.02)


def _among(ids: Sequence[int]) -> str:
    return f"id in ({', '.join(map(str, ids))})"


def _values(rows: pa.Table) -> str:
    listed = ", ".join(
        f"({row['id']}L, '{row['part']}', {row['attempt']}L)" for row in rows.to_pylist()
    )
    return f"select * from values {listed} as s(id, part, attempt)"
