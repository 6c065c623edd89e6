"""One life of a table: Hudi's Spark makes it by one of its surfaces, and steps of Hudi and ours
alternate.

1. A seed chooses the table (`LifeTable`): its surface, the types of its keys and partitions, zones.
2. Steps of Hudi are its SQL (MERGE, UPDATE, DELETE, INSERT, ALTER, CALL) and its data source; ours
   are writes in this process and on Spark, deletes by condition, erasures, services, restores.
3. Each step goes to the model as well (`LifeRows`). After it Hudi and Tideline must read the rows
   of the model, and `check` with keys must find nothing.
4. What Tideline refuses has a reason that is expected of such a table, and no file has changed.

A failure names the seed, the table and the steps so far.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tideline.check_finding import Finding, Severity
from tideline.errors import ConfigError, UnsupportedTableError
from tideline.formats.row_changes import CHANGE_TYPE
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.life_hudi_steps import SOME_COLUMNS, HudiSteps
from tideline.testing.life_our_steps import OurSteps
from tideline.testing.life_state import LifeState, Seen
from tideline.testing.life_table import LifeRows, LifeTable, in_order
from tideline.testing.life_values import ColumnType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REFUSED = (
    # Hudi spells times in more than one way: rows would be stored next to the old ones.
    r"that the table has are not what its columns",
    r"have times .* as numbers and some as text",
)


class Life:
    """One life under way; `peer_in` starts Hudi in a zone."""

    def __init__(
        self, seed: int, folder: Path, spark: SparkSession, peer_in: Callable[[str], HudiPeer]
    ) -> None:
        self.table = LifeTable.of(seed)
        self.steps: list[str] = []
        peer = peer_in(self.table.java_zone)
        self._state = LifeState.of(self.table, str(folder / "life"), spark, peer)
        self._hudi = HudiSteps(self._state)
        self._we = OurSteps(self._state)

    def run(self, steps: int = 8) -> None:
        """Raise AssertionError with the seed and the steps when something is not as it must be."""
        settings = self.table.settings()
        for name, text in settings.items():
            self._state.sql(f"set {name}={text}")
        try:
            self._take(f"Hudi: {self.table.surface.value}", self._hudi.create)
            for number in range(steps):
                choices = self._we.choices() if number % 2 else self._hudi.choices()
                name, step = self._state.chance.choice(list(choices))
                self._take(name, step)
        except Exception as error:
            listed = "\n".join(f"  {n}. {step}" for n, step in enumerate(self.steps, 1))
            raise AssertionError(
                f"{error}\n{self.table}\n{listed}\nRepeat it with TIDELINE_SEED={self.table.seed}"
            ) from error
        finally:
            for name in settings:
                self._state.sql(f"reset {name}")

    def _take(self, name: str, step: Callable[[], None]) -> None:
        self.steps.append(name)
        before = self._files()
        try:
            step()
        except (ConfigError, UnsupportedTableError) as refusal:
            words = str(refusal)
            assert any(re.search(reason, words) for reason in _REFUSED), words
            assert self._files() == before, f"it was refused, and files have changed: {words}"
            self.steps[-1] += f" (refused: {refusal.message})"
        self._check()
        self._remember()

    def _files(self) -> list[str]:
        """All files but the lock's."""
        found = (path for path in Path(self._state.uri).rglob("*") if path.is_file())
        return sorted(str(path) for path in found if ".locks" not in path.parts)

    def _check(self) -> None:
        lake = self._state.lake()
        self._state.sql(f"refresh table {self._state.name}")
        answers = {
            "hudi": self._state.peer.sql(f"select * from {self._state.name}"),
            "tideline": lake.to_arrow(),
            "tideline on Spark": lake.snapshot(self._state.spark).toArrow(),
        }
        wrong = []
        for reader, answer in answers.items():
            names = self._names_that_are_read_by(reader)
            model = self._state.model
            found, wanted = model.found(answer, names), model.expected(names)
            if found != wanted:
                wrong.append(f"{reader} sees other rows: {difference(found, wanted)}")
        assert not wrong, "\n".join(wrong)
        findings = [
            finding
            for finding in lake.check(keys=True)
            if finding.severity is not Severity.NOTE
            and not self._is_of_some_columns(finding)
            and not self._is_of_an_added_column(finding)
        ]
        assert not findings, findings
        self._check_the_past(lake)

    def _is_of_some_columns(self, finding: Finding) -> bool:
        """Whether a log of Hudi's has no statistics of columns that it does not have, by which its
        queries lose rows."""
        is_log = Path(finding.path or "").name.startswith(".")
        return finding.check == "statistics" and is_log and SOME_COLUMNS in self.steps

    def _is_of_an_added_column(self, finding: Finding) -> bool:
        """Whether older files have no row of a column that Hudi added, which it lists; a commit of
        ours adds rows in the partitions that it writes."""
        lacks = re.search(r"(but none|no statistics) of x", finding.message)
        return finding.check == "statistics" and bool(lacks)

    def _names_that_are_read_by(self, reader: str) -> list[str]:
        """From paths Hudi's SQL reads times of its data source as null, others in Java's zone."""
        kinds = self._state.model.columns
        has_zone = self.table.java_zone == self.table.session_zone
        is_right = reader != "hudi" or (self.table.surface.is_sql and has_zone)
        parts = () if is_right else self.table.partition_names
        return [
            name for name in kinds if name not in parts or kinds[name] is not ColumnType.TIMESTAMP
        ]

    def _check_the_past(self, lake: LakeTable) -> None:
        """One point of before: the table as of it, and what became of it since."""
        if not self._state.seen:
            return
        before = self._state.chance.choice(self._state.seen)
        try:
            then = lake.to_arrow(as_of=before.until)
        except ConfigError:
            then = None
        if then is not None and before.model.columns.keys() == self._state.model.columns.keys():
            found, expected = self._state.model.found(then), before.model.expected()
            assert found == expected, f"as of {before.until}: {difference(found, expected)}"
        if before.model.columns.keys() != self._state.model.columns.keys():
            return
        try:
            changes = lake.net_changes(before.until).read_all()
        except ConfigError:
            return
        self._check_changes(before.model, changes)

    def _check_changes(self, before: LifeRows, changes: pa.Table) -> None:
        """The rows of before with the changes are the rows of now."""
        names = list(self._state.model.columns)
        stored = before.in_rows(before.arrow(before.rows.values()))
        rows = dict(zip(before.rows, stored, strict=True))
        for kind, values in zip(
            changes[CHANGE_TYPE].to_pylist(), self._state.model.in_rows(changes), strict=True
        ):
            identity = self._state.model.identity(dict(zip(names, values, strict=True)))
            is_there = identity in rows
            assert is_there == (kind != "INSERT"), f"{kind} of {identity}"
            if kind == "DELETE":
                del rows[identity]
            else:
                rows[identity] = values
        found, expected = in_order(rows.values()), self._state.model.expected()
        assert found == expected, f"rows after the changes: {difference(found, expected)}"

    def _remember(self) -> None:
        newest = self._state.lake().timeline().completed().last()
        assert newest is not None
        self._state.seen.append(Seen(newest.completed_at or newest.time, self._state.model.copy()))


def difference(found: list[Any], expected: list[Any]) -> str:
    """What is in one of the two only, the first few."""
    missing = [row for row in expected if row not in found][:3]
    other = [row for row in found if row not in expected][:3]
    return f"{len(found)} for {len(expected)}; missing {missing}; not expected {other}"
