"""A writer that is killed again and again, and writes every batch exactly once all the same.

Batches follow from the writer's number and theirs, so that a successor makes the same one again.
The journal, one line per event, is what a client of the table would keep: a batch is `started`
before it is sent and `acknowledged` when the write returned. A successor sends a batch that was
started and not acknowledged again, under the same token: it may be in the table already.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

import pyarrow as pa

from tideline.errors import ConflictError, StorageUnavailableError, UnknownOutcomeError
from tideline.storage.location import StoreLocation
from tideline.testing.faulty_store import FaultPlan, FaultyStore
from tideline.testing.late_listings import late_listings
from tideline.testing.small_table import SmallTable, batch

_KEYS_OF_A_WRITER = 100_000
_FRESH_KEYS = 3
_PAUSE_S_MAX = 0.1


class Event(Enum):
    """What a line of a journal says of a batch."""

    STARTED = "started"
    CONFLICTED = "conflicted"
    UNAVAILABLE = "unavailable"
    UNKNOWN = "unknown"
    """The write itself says that its commit may be visible."""
    ACKNOWLEDGED = "acknowledged"
    FOUND = "found"
    """Acknowledged by a repetition that wrote nothing: an earlier attempt had committed."""


@dataclass(frozen=True, slots=True)
class StormBatch:
    """One write: three fresh rows inserted, or earlier rows of this writer updated or deleted."""

    writer: int
    number: int

    @property
    def token(self) -> str:
        return f"storm-{self.writer}-{self.number}"

    @property
    def operation(self) -> str:
        """Mostly inserts, which a repetition would double."""
        return {3: "upsert", 4: "delete"}.get(self.number % 5, "insert")

    @property
    def rows(self) -> pa.Table:
        if self.operation == "insert":
            return batch(self._fresh_keys(self.number), self.number)
        if self.operation == "upsert":
            keys = [*self._fresh_keys(self.number - 1)[:2], *self._fresh_keys(self.number)[:1]]
            return batch(keys, self.number)
        return batch(self._fresh_keys(self.number - 2)[2:], 0)

    @property
    def deleted_keys(self) -> list[str]:
        """The keys that are gone once it has committed."""
        is_delete = self.operation == "delete"
        return self.rows.column("id").to_pylist() if is_delete else []

    def _fresh_keys(self, number: int) -> list[int]:
        start = self.writer * _KEYS_OF_A_WRITER + number * _FRESH_KEYS
        return list(range(start, start + _FRESH_KEYS))


@dataclass(frozen=True, slots=True)
class StormJob:
    """One life of a writer; `plan` may end it at a write of its own."""

    location: StoreLocation
    writer: int
    options: Mapping[str, str]
    journal: str
    stop: str
    plan: FaultPlan = field(default_factory=FaultPlan)
    listing_delay_s_max: float = 0.0


def write_in_a_storm(job: StormJob) -> None:
    """Write batch after batch until the file `stop` exists and nothing is in doubt."""
    table = SmallTable(job.location)
    listed = late_listings(table.store(), job.listing_delay_s_max)
    store = FaultyStore(listed, job.plan, kernel_locks=True)
    random = Random()
    journal = Path(job.journal)
    with journal.open("a") as lines:

        def note(event: Event, number: int) -> None:
            lines.write(f"{json.dumps([event.value, number])}\n")
            lines.flush()

        number, is_in_doubt = next_batch(read_journal(journal))
        while is_in_doubt or not Path(job.stop).exists():
            if not is_in_doubt:
                note(Event.STARTED, number)
            event = _send(table, store, StormBatch(job.writer, number), job.options)
            note(event, number)
            is_in_doubt = event not in _DONE
            number += not is_in_doubt
            if is_in_doubt:
                time.sleep(random.uniform(0, _PAUSE_S_MAX))


def read_journal(journal: Path) -> list[tuple[Event, int]]:
    """Its whole lines; a kill may have cut the last one, whose event then has not happened."""
    whole, _, _ = journal.read_text().rpartition("\n")
    parsed = (json.loads(line) for line in whole.splitlines())
    return [(Event(event), number) for event, number in parsed]


def next_batch(events: Iterable[tuple[Event, int]]) -> tuple[int, bool]:
    """The batch to continue with, and whether an earlier life has started it already."""
    number, is_in_doubt = 0, False
    for event, of in events:
        is_in_doubt = event not in _DONE
        number = of if is_in_doubt else of + 1
    return number, is_in_doubt


def acknowledged(events: Iterable[tuple[Event, int]]) -> list[int]:
    """Numbers of the batches whose write returned, in order."""
    return [number for event, number in events if event in _DONE]


def expected_values(journals: Mapping[int, list[int]]) -> list[tuple[str, int]]:
    """What a table holds after these batches of each writer; a key twice would stand here twice."""
    rows: Counter[tuple[str, int]] = Counter()
    for writer, numbers in journals.items():
        own: dict[str, int] = {}
        for number in numbers:
            storm_batch = StormBatch(writer, number)
            for key, value in zip(
                *storm_batch.rows.select(["id", "v"]).to_pydict().values(), strict=True
            ):
                if storm_batch.operation == "delete":
                    own.pop(key, None)
                else:
                    own[key] = value
        rows.update(own.items())
    return sorted(rows.elements())


_DONE = (Event.ACKNOWLEDGED, Event.FOUND)


def _send(
    table: SmallTable, store: FaultyStore, storm_batch: StormBatch, options: Mapping[str, str]
) -> Event:
    try:
        report = table.write(
            storm_batch.operation,
            storm_batch.rows,
            store=store,
            options=options,
            token=storm_batch.token,
        )
    except ConflictError:
        return Event.CONFLICTED
    except UnknownOutcomeError:
        return Event.UNKNOWN
    except StorageUnavailableError:
        return Event.UNAVAILABLE
    return Event.FOUND if report.is_repeat else Event.ACKNOWLEDGED
