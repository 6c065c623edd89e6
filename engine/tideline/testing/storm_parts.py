"""Who else is in a full storm: an eraser, a follower of changes, a publisher and a reader.

Each keeps a journal of whole lines, as its client would, and a successor continues where that ends.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tideline.errors import (
    ConfigError,
    ConflictError,
    CorruptTableError,
    ObjectNotFoundError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from tideline.formats.row_changes import CHANGE_TYPE
from tideline.hudi.read.incremental import effective_time
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.lake_table import LakeTable
from tideline.storage.location import StoreLocation
from tideline.testing.condition_in_arrow import condition_of, conditions_in_arrow
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.late_listings import late_listings
from tideline.testing.published_rows import published_values
from tideline.testing.small_table import SmallTable
from tideline.testing.storm_states import Line, Progress, Values, read_lines, refuse_half_states
from tideline.testing.storm_writer import StormBatch

_PAUSE_S_MAX = 0.2
_CYCLE = 5
"""Batches after which a writer never comes back to their keys."""
_TRY_AGAIN = (ConflictError, StorageUnavailableError, UnknownOutcomeError)
_NOT_READ = (ObjectNotFoundError, CorruptTableError, StorageUnavailableError)
"""Files that are cleaned while they are read, or a store that gave no answer."""
_NAMED_TIME = re.compile(r"earliest time to begin after is (\d+)")


@dataclass(frozen=True, slots=True)
class PartJob:
    """One life; `plan` may end it at a write of its own. Journals are in `folder`."""

    location: StoreLocation
    folder: str
    listing_delay_s_max: float = 0.0
    plan: FaultPlan = field(default_factory=FaultPlan)
    options: Mapping[str, str] = field(default_factory=dict)
    """Of an erasure: how long the dead count as alive, above all."""

    @property
    def journals(self) -> Path:
        return Path(self.folder)

    @property
    def is_over(self) -> bool:
        return (self.journals / "stop").exists()

    def opener(self) -> Callable[[], LakeTable]:
        """Opens the table again each time, over one store that may kill this process."""
        table = SmallTable(self.location)
        listed = late_listings(table.store(), self.listing_delay_s_max)
        store = FaultyStore(listed, self.plan, kernel_locks=True)
        return lambda: table.lake(store)


def erase_in_a_storm(job: PartJob) -> None:
    """Erase keys that no writer will write again, each time until it is proven."""
    lake = job.opener()
    random = Random()
    with _journal(job, "eraser") as note, conditions_in_arrow():
        while True:
            erasures = read_lines(job.journals / "eraser")
            if not erasures or erasures[-1][0] == "erased":
                if job.is_over:
                    return
                keys = _keys_to_erase(job, random, erasures)
                if not keys:
                    time.sleep(0.2)
                    continue
                note("begun", keys)
            else:
                keys = erasures[-1][1]
            with suppress(*_TRY_AGAIN, *_NOT_READ):
                done = lake().erase(condition_of(keys), prove=True, options=job.options)
                if done.is_complete:
                    note("erased", keys)
            time.sleep(random.uniform(0, _PAUSE_S_MAX))


def follow_in_a_storm(job: PartJob) -> None:
    """Apply each change to the rows that the journal comes to, and to nothing else.

    Changes that were cleaned away are made up for by a read of the table as of the time that the
    refusal names, or else of its newest commit.
    """
    lake = job.opener()
    followed = Followed.of(job.journals / "follower")
    with _journal(job, "follower") as note:
        while True:
            is_over = job.is_over
            try:
                line: Line | None = _changes(lake(), followed.offset)
            except ConfigError as refused:
                line = _snapshot(lake, refused)
            except (ConflictError, *_NOT_READ):
                continue
            if line is not None and line[1] != followed.offset:
                followed.apply(line)
                note(*line)
            elif line is not None and is_over:
                return
            time.sleep(0.05)


def publish_in_a_storm(job: PartJob) -> None:
    """Publish what has completed, again and again, and once more at the end."""
    lake = job.opener()
    while True:
        is_over = job.is_over
        with suppress(*_TRY_AGAIN):
            lake().publish()
            if is_over:
                return
        time.sleep(Random().uniform(0, _PAUSE_S_MAX))


def read_in_a_storm(job: PartJob) -> None:
    """Read the table, and what is published of it, and fail on what it never was."""
    lake = job.opener()
    with _journal(job, "reader") as note:
        while not job.is_over:
            for name, read in (("table", table_values), ("publication", published_values)):
                before = Progress.read(job.journals)
                try:
                    values = read(lake())
                except (*_NOT_READ, OSError):
                    note("gone", name)
                    continue
                if values is not None:
                    after = Progress.read(job.journals)
                    is_older = name == "publication"
                    refuse_half_states(values, before, after, may_be_older=is_older)
                    note("seen", name)
            time.sleep(0.3)


def table_values(lake: LakeTable) -> Values:
    """Keys and values of the table, by the product's own reader."""
    rows = lake.to_arrow(["id", "v"]).to_pydict()
    return sorted(zip(rows["id"], rows["v"], strict=True))


@dataclass(slots=True)
class Followed:
    """Rows by the changes that were applied; each must fit what the earlier ones came to."""

    offset: str = "0"
    rows: dict[str, int] = field(default_factory=dict)
    changes: int = 0
    snapshots: int = 0

    @classmethod
    def of(cls, journal: Path) -> Followed:
        """What a journal comes to."""
        followed = cls()
        for line in read_lines(journal):
            followed.apply(line)
        return followed

    def apply(self, line: Line) -> None:
        """Raise AssertionError for a change that comes twice, or that an earlier one is missing
        of."""
        kind, until, found = line
        if kind == "snapshot":
            self.rows = dict(found)
            self.snapshots += 1
        for change, key, v in found if kind == "changes" else ():
            where = f"{change} {key} {v} in ({self.offset}, {until}]"
            match change:
                case "INSERT":
                    assert key not in self.rows, f"{where}: it is there, {self.rows[key]}"
                    self.rows[key] = v
                case "UPDATE_BEFORE":
                    assert self.rows.pop(key, None) == v, where
                case "UPDATE_AFTER":
                    assert key not in self.rows, where
                    self.rows[key] = v
                case "DELETE":
                    assert self.rows.pop(key, None) == v, where
            self.changes += 1
        self.offset = until

    @property
    def values(self) -> Values:
        return sorted(self.rows.items())


def _changes(lake: LakeTable, after: str) -> Line:
    feed = lake.changes(after)
    rows = feed.read_all().select([CHANGE_TYPE, "id", "v"]).to_pylist()
    return ["changes", str(feed.until), [[*row.values()] for row in rows]]


def _snapshot(opened: Callable[[], LakeTable], refused: ConfigError) -> Line | None:
    """The table as of the time that a refusal names, or as of its newest commit where that cannot
    be read any more; None where both are gone by now."""
    named = _NAMED_TIME.search(str(refused))
    if named is None:
        raise refused
    for is_newest in (False, True):
        with suppress(ConfigError, ConflictError, *_NOT_READ):
            lake = opened()
            time_of = _newest_time(lake) if is_newest else named[1]
            rows = lake.to_arrow(["id", "v"], as_of=time_of).to_pydict()
            return ["snapshot", time_of, [*zip(rows["id"], rows["v"], strict=True)]]
    return None


def _newest_time(lake: LakeTable) -> str:
    commits = lake.timeline().of(*COMMIT_ACTIONS).completed()
    return max(str(effective_time(commit)) for commit in commits)


def _keys_to_erase(job: PartJob, random: Random, erasures: list[Line]) -> list[str]:
    """Keys of one batch, in two partitions, of a writer that has continued; none where all went."""
    gone = {key for kind, keys in erasures if kind == "erased" for key in keys}
    done = Progress.read(job.journals).acknowledged
    batches = [
        StormBatch(writer, number)
        for writer, count in done.items()
        for number in range(count // _CYCLE * _CYCLE)
    ]
    inserts = [batch for batch in batches if batch.operation == "insert"]
    keys = [insert.rows.column("id").to_pylist() for insert in inserts]
    left = [found for found in keys if gone.isdisjoint(found)]
    return random.choice(left) if left else []


@contextmanager
def _journal(job: PartJob, name: str) -> Iterator[Callable[..., None]]:
    """Appends lines, each at once and as a whole."""
    with (job.journals / name).open("a") as lines:

        def note(*values: object) -> None:
            lines.write(f"{json.dumps(values)}\n")
            lines.flush()

        yield note
