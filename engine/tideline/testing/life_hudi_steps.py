"""Steps of Hudi in a life: its SQL, its data source, its procedures; each goes to the model too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tideline.testing.life_state import NUMBERS, LifeState
from tideline.testing.life_table import Row, Surface
from tideline.testing.life_values import ColumnType

SOME_COLUMNS = "Hudi: merge into, some columns"
"""The step that updates some columns of rows, in logs that have these alone."""
_ROWS = 12


class HudiSteps:
    """What Hudi may do now, by name."""

    def __init__(self, state: LifeState) -> None:
        self._state = state

    def create(self) -> None:
        rows = self._state.new_rows(_ROWS)
        surface = self._state.table.surface
        if surface.is_sql:
            is_select = surface is Surface.CREATE_AS_SELECT
            self._state.sql(self._state.table.create(self._state.uri, rows if is_select else None))
            if not is_select:
                self._state.sql(
                    f"insert into {self._state.name} select * from {self._state.model.values(rows)}"
                )
        else:
            operation = "bulk_insert" if surface is Surface.BULK_INSERT else "upsert"
            self._state.data_source(operation, rows)
            self._state.sql(
                f"create table {self._state.name} using hudi location '{self._state.uri}'"
            )
        self._state.model.upsert(rows)
        self._state.declare_zone()

    def choices(self) -> Iterator[tuple[str, Callable[[], None]]]:
        table, is_sql = self._state.table, self._state.table.surface.is_sql
        if not table.hudi_loses_keys and (is_sql or not table.has_times_in_paths):
            yield "Hudi: merge into", self._merge
            if table.table_type == "cow" or self._merges_in_logs():
                yield SOME_COLUMNS, self._merge_some_columns
            yield "Hudi: update", self._update
            yield "Hudi: delete from", self._delete
        if not table.hudi_loses_keys and not (is_sql and table.has_times_in_paths):
            yield "Hudi: data source upsert", self._upsert_by_data_source
        if is_sql or not table.has_times_in_paths:
            yield "Hudi: insert into", self._insert
            yield "Hudi: insert overwrite", self._overwrite
            if table.partitions and self._state.model.rows:
                yield "Hudi: insert overwrite a partition", self._overwrite_partition
        yield "Hudi: add columns", self._add_column
        yield "Hudi: rename to", self._rename_table
        if not table.index.places_by_hash:
            yield "Hudi: clustering", partial(self._call, "run_clustering")
        yield "Hudi: clean", partial(self._call, "run_clean", "retain_commits => 2")
        if table.table_type == "mor":
            yield "Hudi: compaction", self._compact
        if table.is_altered:
            yield "Hudi: rename column", self._rename_column
            if self._state.model.columns["w"] is ColumnType.INT:
                yield "Hudi: widen column", self._widen

    def _merges_in_logs(self) -> bool:
        """Whether Hudi updates some columns in logs: where it does not, in version 6 and with a
        global index, it stores nulls for the others; an altered table has no such merge."""
        table = self._state.table
        return table.version > 6 and not table.index.is_global and not table.is_altered

    def _merge(self) -> None:
        """Changes and new rows; some stored rows are deleted by a clause of the statement."""
        changed, gone = self._state.changes(), []
        stored = [
            row for row in changed if self._state.model.identity(row) in self._state.model.rows
        ]
        if self._state.chance.random() < 0.5:
            gone = stored[:2]
            for row in gone:
                # A delete that is older than the row is late, as any row.
                row |= {"n": -1, "ts": self._state.tick()}
        # Of clauses that both apply Hudi takes the update, whatever stands first.
        unless = " and s.n <> -1" if gone else ""
        deletes = "when matched and s.n = -1 then delete " if gone else ""
        self._merge_into(
            changed,
            f"{deletes}when matched{unless} then update set * when not matched then insert *",
        )
        self._state.model.upsert([row for row in changed if row not in gone])
        self._state.model.delete(gone)

    def _merge_some_columns(self) -> None:
        rows = [{**row, "n": self._state.chance.randrange(NUMBERS), "ts": self._state.tick()}
                for row in self._state.some(4)]  # fmt: skip
        if not rows:
            return
        # Without partial updates, as in version 6 and with a global index, Hudi wants the keys.
        table = self._state.table
        is_whole = table.version == 6 or table.index.is_global
        names = ("n", "ts", *(table.key_names if is_whole else ()))
        assigned = ", ".join(f"{name} = s.{name}" for name in names)
        self._merge_into(rows, f"when matched then update set {assigned}")
        self._state.model.upsert(rows)
        self._state.model.note_merged_in_part(rows)

    def _merge_into(self, rows: list[Row], clauses: str) -> None:
        table, model = self._state.table, self._state.model
        names = (*table.key_names, *table.partition_names)
        same = " and ".join(f"t.{name} = s.{name}" for name in names)
        self._state.sql(
            f"merge into {self._state.name} as t using (select * from {model.values(rows)}) as s "
            f"on {same} {clauses}"
        )

    def _update(self) -> None:
        condition = self._state.condition()
        self._state.sql(f"update {self._state.name} set s = concat(s, '+') where {condition.sql}")
        for row in self._state.model.matching(condition.holds):
            row["s"] = None if row["s"] is None else f"{row['s']}+"

    def _delete(self) -> None:
        condition = self._state.condition()
        self._state.sql(f"delete from {self._state.name} where {condition.sql}")
        self._state.model.delete(self._state.model.matching(condition.holds))

    def _insert(self) -> None:
        rows = self._state.new_rows(4)
        self._state.sql(
            f"insert into {self._state.name} select * from {self._state.model.values(rows)}"
        )
        self._state.model.upsert(rows)

    def _upsert_by_data_source(self) -> None:
        rows = self._state.changes()
        self._state.data_source("upsert", rows)
        self._state.model.upsert(rows)

    def _overwrite_partition(self) -> None:
        model, parts = self._state.model, self._state.table.partition_names
        home = self._state.chance.choice(list(model.rows.values()))
        rows = [{**row, **{name: home[name] for name in parts}} for row in self._state.new_rows(3)]
        rows = list({model.identity(row): row for row in rows}.values())
        others = ", ".join(name for name in model.columns if name not in parts)
        self._state.sql(
            f"insert overwrite {self._state.name} partition ({self._partition_of(home)}) "
            f"select {others} from {model.values(rows)}"
        )
        model.delete(model.in_partition_of(home))
        model.upsert(rows)

    def _partition_of(self, row: Row) -> str:
        """The partition as SQL names it."""
        kinds = self._state.model.columns
        names = self._state.table.partition_names
        return ", ".join(f"{name} = {kinds[name].constant(row[name])}" for name in names)

    def _overwrite(self) -> None:
        rows = self._state.new_rows(_ROWS)
        self._state.sql(
            f"insert overwrite {self._state.name} select * from {self._state.model.values(rows)}"
        )
        self._state.model.delete(self._state.model.rows.values())
        self._state.model.upsert(rows)

    def _add_column(self) -> None:
        kind = self._state.chance.choice(tuple(ColumnType))
        number = self._state.next_number()
        name = f"x{number}"
        self._state.sql(f"alter table {self._state.name} add columns ({name} {kind.sql})")
        self._state.model.add(name, kind)

    def _rename_table(self) -> None:
        number = self._state.next_number()
        name = f"{self._state.table.first_name}_{number}"
        self._state.sql(f"alter table {self._state.name} rename to {name}")
        self._state.name = name
        # Hudi writes the properties again, those of its own alone.
        self._state.declare_zone()

    def _rename_column(self) -> None:
        old = self._state.chance.choice(
            [name for name in self._state.model.columns if name[0] in "xy"] or ["s"]
        )
        if old == "s":
            self._add_column()
            return
        number = self._state.next_number()
        self._state.sql(f"alter table {self._state.name} rename column {old} to y{number}")
        self._state.model.rename(old, f"y{number}")

    def _widen(self) -> None:
        self._state.sql(f"alter table {self._state.name} alter column w type bigint")
        self._state.model.columns["w"] = ColumnType.LONG

    def _compact(self) -> None:
        self._call("run_compaction", "op => 'schedule'")
        self._call("run_compaction", "op => 'run'")

    def _call(self, procedure: str, more: str = "") -> None:
        self._state.sql(
            f"call {procedure}(table => '{self._state.name}'{', ' if more else ''}{more})"
        )
