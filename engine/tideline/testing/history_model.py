"""What a table must hold in a history of services: rows now, as of savepoints, for pinned readers.

The model is a dictionary of values by key and knows nothing of files. Services leave it as it is;
a restore takes it back to what it was when the savepoint was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from tideline.hudi.timeline.instant_time import InstantTime

PARTITIONS = 2

Values = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ExpectedTable:
    """Rows now, and rows as of the instants that have to stay readable."""

    rows: Values = field(default_factory=dict)
    savepoints: Mapping[InstantTime, Values] = field(default_factory=dict)
    pinned: Mapping[InstantTime, Values] = field(default_factory=dict)

    def with_savepoints(self, times: Iterable[InstantTime]) -> ExpectedTable:
        """These savepoints and no others; new ones hold the rows of now."""
        return replace(
            self, savepoints={time: self.savepoints.get(time, self.rows) for time in times}
        )

    def pinning(self, time: InstantTime) -> ExpectedTable:
        """A reader began to read the newest instant, and takes long."""
        return replace(self, pinned={time: self.rows})

    def unpinned(self) -> ExpectedTable:
        """All readers have finished."""
        return replace(self, pinned={})

    def restored(self, time: InstantTime) -> ExpectedTable:
        """The table as of a savepoint: what came after it is gone."""
        return ExpectedTable(
            self.savepoints[time],
            {at: rows for at, rows in self.savepoints.items() if at <= time},
            {at: rows for at, rows in self.pinned.items() if at <= time},
        )


def after_write(before: Values, operation: str, written: pa.Table) -> dict[str, int]:
    """What a write makes of the rows; keys are `k<n>`, in partition `p<n mod 2>`."""
    values = dict(zip(written["id"].to_pylist(), written["v"].to_pylist(), strict=True))
    match operation:
        case "insert_overwrite" | "delete_partition":
            replaced = set(written["part"].to_pylist())
            gone = {key for key in before if f"p{int(key[1:]) % PARTITIONS}" in replaced}
        case "insert_overwrite_table":
            gone = set(before)
        case "delete":
            gone = set(values)
        case _:
            gone = set()
    kept = {key: value for key, value in before.items() if key not in gone}
    return kept if operation in ("delete", "delete_partition") else kept | values


def difference(found: Values, expected: Values) -> str:
    """Key by key what differs; empty where nothing does."""
    return "\n".join(
        f"  {key}: found {found.get(key)}, expected {expected.get(key)}"
        for key in sorted(found.keys() | expected.keys())
        if found.get(key) != expected.get(key)
    )
