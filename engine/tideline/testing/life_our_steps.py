"""Steps of ours in a life: writes of both engines, deletes by condition, erasures, services."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tideline.testing.life_state import LifeState, Seen
from tideline.testing.life_table import Row

_DUE = {
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
}


class OurSteps:
    """What we may do now, by name."""

    def __init__(self, state: LifeState) -> None:
        self._state = state

    def choices(self) -> Iterator[tuple[str, Callable[[], None]]]:
        for engine in ("in_process", "spark"):
            yield f"we: upsert, {engine}", partial(self._we_upsert, engine)
            yield f"we: delete rows, {engine}", partial(self._we_delete_rows, engine)
            yield f"we: delete by condition, {engine}", partial(self._we_delete, engine)
        yield "we: insert", self._we_insert
        yield "we: erase", self._we_erase
        if self._state.table.table_type == "mor":
            yield "we: compaction", partial(self._we_serve, "compaction")
        for service in ("clustering", "cleaning", "archival"):
            yield f"we: {service}", partial(self._we_serve, service)
        if self._state.savepoint is None:
            yield "we: savepoint", self._we_save
        elif self._state.may_restore():
            yield "we: restore", self._we_restore

    def _we_upsert(self, engine: str) -> None:
        rows = self._state.changes()
        self._we_write("upsert", rows, engine)
        self._state.model.upsert(rows)

    def _we_insert(self) -> None:
        rows = self._state.new_rows(4)
        self._we_write("insert", rows, "in_process")
        self._state.model.upsert(rows)

    def _we_delete_rows(self, engine: str) -> None:
        rows = self._state.some(3)
        self._we_write("delete", rows, engine)
        self._state.model.delete(rows)

    def _we_write(self, operation: str, rows: list[Row], engine: str) -> None:
        given: Any = self._state.model.arrow(rows)
        if engine == "spark":
            given = self._state.spark.createDataFrame(given)
        options = {**self._state.table.our_settings(), "tideline.engine.small": engine}
        self._state.lake().write(given, operation, options=options)

    def _we_delete(self, engine: str) -> None:
        condition = self._state.condition()
        gone = self._state.model.matching(condition.holds)
        options = {**self._state.table.our_settings(), "tideline.engine.small": engine}
        report = self._state.lake().delete(condition.sql, spark=self._state.spark, options=options)
        assert report.rows_deleted == len(gone), f"{report.rows_deleted} deleted of {len(gone)}"
        self._state.model.delete(gone)

    def _we_erase(self) -> None:
        condition = self._state.condition()
        gone = self._state.model.matching(condition.holds)
        erased = self._state.lake().erase(
            condition.sql, prove=True, drop_savepoints=True, spark=self._state.spark
        )
        assert erased.matching == len(gone), f"{erased.matching} erased of {len(gone)}"
        assert erased.is_complete or not gone, erased
        self._state.model.delete(gone)
        self._state.savepoint = None

    def _we_serve(self, service: str) -> None:
        self._state.lake().run(service, options=_DUE, spark=self._state.spark)

    def _we_save(self) -> None:
        made = self._state.lake().savepoint()
        self._state.savepoint = Seen(made.instant, self._state.model.copy())

    def _we_restore(self) -> None:
        assert self._state.savepoint is not None
        self._state.lake().restore(self._state.savepoint.until)
        self._state.note_restored(self._state.savepoint)
