"""Random histories of an Iceberg table in a REST catalog that Tideline, Iceberg's Spark runtime and
PyIceberg write by turns. After each commit all of them, and DuckDB, read the rows of a model that
shares no code with any of them.

What is drawn: the version, how rows go, where rows are placed, which columns there are, and of each
step the writer. Tideline also changes columns and partitions, writes by way of a branch, and runs
services.
"""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import Table

import tideline
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.iceberg_rest_server import IcebergRestServer
from tideline.testing.json_line_process import PeerFailureError

Row: TypeAlias = dict[str, Any]
COLUMNS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("part", pa.string()),
        pa.field("n", pa.int32()),
        pa.field("at", pa.timestamp("us", "UTC")),
    ]
)
PLACEMENTS: tuple[Mapping[str, Any], ...] = (
    {},
    {"sort_by": "n DESC"},
    {"partition_by": "part"},
    {"partition_by": "part, n", "sort_by": "id"},
    {"partition_by": "bucket(3, id)"},
    {"partition_by": "truncate(10, id), part", "sort_by": "n DESC"},
    {"partition_by": "day(at)", "sort_by": "id"},
    {"partition_by": "month(at), bucket(2, part)"},
)
ADDED_FIELDS = ("part", "bucket(4, id)", "truncate(20, n)", "year(at)")
_KEYS = 50
_NO_ANSWER = "EMPTY_SCHEMA_NOT_SUPPORTED"
_START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_NAMESPACE = "histories"


class SharedHistory:
    """The table, and the rows that it must have by key."""

    def __init__(self, peer: IcebergPeer, server: IcebergRestServer, seed: int) -> None:
        """A new table in the catalog of the server, which Spark knows as `shared`."""
        address = server.uri
        self.chance = chance = random.Random(seed)
        self.version = chance.choice([2, 2, 3])
        mode = chance.choice(["copy-on-write", "merge-on-read"])
        self.name = f"{_NAMESPACE}.t{seed}"
        self._peer, self._spark_name = peer, f"shared.{self.name}"
        peer.add_catalog("shared", {"type": "rest", "uri": address, "cache-enabled": "false"})
        peer.run(f"create namespace if not exists shared.{_NAMESPACE}")
        self.table = tideline.create_iceberg(
            self.name,
            COLUMNS,
            key="id",
            format_version=self.version,
            properties={f"write.{kind}.mode": mode for kind in ("delete", "merge", "update")},
            catalog=address,
            **chance.choice(PLACEMENTS),
        )
        self._pyiceberg = RestCatalog("shared", uri=address)
        self._types: dict[str, pa.DataType] = {item.name: item.type for item in COLUMNS}
        self._added = 0
        self.rows: dict[int, Row] = {}
        self.said: list[str] = [f"version {self.version}, {mode}"]
        self.written_by: set[str] = set()

    @property
    def theirs(self) -> Table:
        """The table as PyIceberg finds it now."""
        found: Table = self._pyiceberg.load_table(self.name)
        return found

    def step(self) -> None:
        """One change by one of the writers, then what everybody reads."""
        by_us = (
            *(self._append, self._upsert, self._delete_keys, self._delete_where, self._update),
            *(self._overwrite, self._branch, self._change_columns, self._change_spec, self._serve),
        )
        by_spark = (self._spark_insert, self._spark_update, self._spark_delete, self._spark_merge)
        by_pyiceberg = (self._pyiceberg_append, self._pyiceberg_delete, self._pyiceberg_overwrite)
        writers = {"Tideline": by_us, "Spark": by_spark}
        if self._pyiceberg_places_rows():
            writers["PyIceberg"] = by_pyiceberg
        writer = self.chance.choice(["Tideline", *writers])
        chosen = self.chance.choice(writers[writer])
        self.said.append(chosen.__name__.strip("_"))
        chosen()
        self.written_by.add(writer)
        self.check()

    def check(self) -> None:
        """Every reader has the rows of the model, and those that a condition leaves."""
        self.table.refresh()
        theirs, bound = self.theirs, self.chance.randrange(100)
        few = {number: row for number, row in self.rows.items() if (row["n"] or 0) > bound}
        self._require("Tideline", self.table.to_arrow())
        self._require("PyIceberg", theirs.scan().to_arrow())
        self._require("Spark", self._peer.sql(f"select * from {self._spark_name}"))
        self._require("DuckDB", self._peer.duckdb_read(_path(theirs.metadata_location)))
        self._require("Tideline", self.table.to_arrow(filter=f"n > {bound}"), few)
        self._require("PyIceberg", theirs.scan(f"n > {bound}").to_arrow(), few)

    def check_at_last(self) -> None:
        """No finding, and each kept snapshot has the rows that PyIceberg reads as of it."""
        assert self.table.check() == ()
        for snapshot in self.table.snapshots:
            number = snapshot.snapshot_id
            ours = self.table.to_arrow(["id", "n"], as_of=str(number))
            theirs = self.theirs.scan(selected_fields=("id", "n"), snapshot_id=number).to_arrow()
            assert _listed(ours.to_pylist()) == _listed(theirs.to_pylist()), number

    def _require(self, reader: str, found: pa.Table, wanted: dict[int, Row] | None = None) -> None:
        rows = self.rows if wanted is None else wanted
        assert sorted(found.column_names) == sorted(self._types), reader
        assert _listed(found.to_pylist()) == _listed(rows.values()), reader

    def _row(self, number: int) -> Row:
        """A row of this key, in the columns of now."""
        chance = self.chance
        values: Row = {
            "id": number,
            "part": chance.choice(["a", "b", "c/d", None]),
            "n": chance.randrange(100),
            "at": _START + dt.timedelta(hours=chance.randrange(2_000)),
        }
        others = [name for name in self._types if name not in values]
        return values | {name: chance.choice([None, f"{chance.random()}"]) for name in others}

    def _some(self, *, new: bool = False) -> list[Row]:
        numbers = self.chance.sample(range(_KEYS), self.chance.randrange(1, 10))
        return [self._row(number) for number in numbers if not (new and number in self.rows)]

    def _arrow(self, rows: list[Row]) -> pa.Table:
        fields = [pa.field(name, kind, name != "id") for name, kind in self._types.items()]
        return pa.Table.from_pylist(rows, pa.schema(fields))

    def _put(self, rows: list[Row]) -> None:
        self.rows |= {row["id"]: row for row in rows}

    def _condition(self) -> tuple[str, Callable[[Row], bool]]:
        """One that Spark, PyIceberg and Tideline spell alike."""
        bound, low = self.chance.randrange(100), self.chance.randrange(_KEYS)
        found: list[tuple[str, Callable[[Row], bool]]] = [
            (f"n < {bound}", lambda row: row["n"] < bound),
            (f"part = 'a' and n > {bound}", lambda row: row["part"] == "a" and row["n"] > bound),
            ("part is null", lambda row: row["part"] is None),
            (f"id >= {low} and id < {low + 8}", lambda row: low <= row["id"] < low + 8),
        ]
        return self.chance.choice(found)

    def _keep(self, test: Callable[[Row], bool]) -> int:
        """Only rows that do not match stay; how many went."""
        before = len(self.rows)
        self.rows = {number: row for number, row in self.rows.items() if not test(row)}
        return before - len(self.rows)

    def _append(self, branch: str = "main") -> None:
        given = self._some(new=True)
        assert self.table.write(self._arrow(given), branch=branch).rows_inserted == len(given)
        self._put(given)

    def _upsert(self, branch: str = "main") -> None:
        given = self._some()
        updated = sum(row["id"] in self.rows for row in given)
        report = self.table.write(self._arrow(given), "upsert", branch=branch)
        assert (report.rows_updated, report.rows_inserted) == (updated, len(given) - updated)
        self._put(given)

    def _delete_keys(self) -> None:
        numbers = {row["id"] for row in self._some()}
        keys = pa.table({"id": pa.array(sorted(numbers), pa.int64())})
        report = self.table.write(keys, "delete")
        assert report.rows_deleted == self._keep(lambda row: row["id"] in numbers)

    def _delete_where(self, branch: str = "main") -> None:
        where, test = self._condition()
        assert self.table.delete(where, branch=branch).rows_deleted == self._keep(test)

    def _update(self) -> None:
        where, test = self._condition()
        part = self.chance.choice(["a", "z"])
        report = self.table.update(where, {"part": part})
        found = [number for number, row in self.rows.items() if test(row)]
        assert report.rows_updated == len(found)
        self.rows |= {number: self.rows[number] | {"part": part} for number in found}

    def _overwrite(self) -> None:
        where, test = self._condition()
        self._keep(test)
        given = self._some(new=True)
        self.table.write(self._arrow(given), "overwrite", where=where)
        self._put(given)

    def _branch(self) -> None:
        """Rows by way of a branch; readers of main see them once it follows."""
        if self.table.current_snapshot is None:
            return
        self.table.alter().create_branch("audit").commit()
        before = _listed(self.rows.values())
        self._upsert("audit")
        self._delete_where("audit")
        assert _listed(self.theirs.scan().to_arrow().to_pylist()) == before
        self.table.refresh().alter().fast_forward("main", "audit").drop_branch("audit").commit()

    def _change_columns(self) -> None:
        own = [name for name in self._types if name not in COLUMNS.names]
        match self.chance.randrange(4 if own else 1):
            case 0:
                self._added += 1
                name = f"x{self._added}"
                self.table.alter().add_column(name, "string").commit()
                self._types[name] = pa.string()
                self._reshape(lambda row: row | {name: None})
            case 1:
                old, new = own[0], f"{own[0]}_"
                self.table.alter().rename_column(old, new).commit()
                self._types = {new if name == old else name: kind
                               for name, kind in self._types.items()}  # fmt: skip
                self._reshape(lambda row: {new if name == old else name: value
                                           for name, value in row.items()})  # fmt: skip
            case 2:
                gone = own[-1]
                self.table.alter().drop_column(gone).commit()
                del self._types[gone]
                self._reshape(lambda row: {name: row[name] for name in row if name != gone})
            case _ if self._types["n"] == pa.int32():
                self.table.alter().change_type("n", "long").commit()
                self._types["n"] = pa.int64()

    def _reshape(self, change: Callable[[Row], Row]) -> None:
        self.rows = {number: change(row) for number, row in self.rows.items()}

    def _change_spec(self) -> None:
        spec = self.table.metadata.spec(self.table.metadata.default_spec_id)
        placed = [field.name for field in spec.fields if field.transform.name != "void"]
        term = self.chance.choice(ADDED_FIELDS)
        with self.table.alter() as change:
            if placed and self.chance.random() < 0.6:
                change.drop_partition_field(placed[0])
            elif not any(term.split("(")[0] in name or name in term for name in placed):
                change.add_partition_field(term)

    def _serve(self) -> None:
        match self.chance.randrange(4):
            case 0:
                self.table.rewrite(options={"rewrite-all": "true"})
            case 1:
                self.table.run("rewrite_manifests", options={"min-manifests": "1"})
            case 2 if self.version == 2:
                self.table.run("rewrite_position_deletes", options={"rewrite-all": "true"})
            case _:
                self.table.expire(older_than=dt.timedelta(0), retain_last=3)

    def _pyiceberg_places_rows(self) -> bool:
        """By what it has without its extra pyiceberg-core; it writes no manifests of version 3."""
        if self.version == 3:
            return False
        spec = self.table.metadata.spec(self.table.metadata.default_spec_id)
        return all(field.transform.name in ("identity", "void") for field in spec.fields)

    def _spark_insert(self) -> None:
        given = self._some(new=True)
        self._spark(f"insert into {self._spark_name} by name select * from src", given)
        self._put(given)

    def _spark_update(self) -> None:
        where, test = self._condition()
        self._spark(f"update {self._spark_name} set n = n + 1 where {where}")
        self._reshape(lambda row: row | {"n": row["n"] + 1} if test(row) else row)

    def _spark_delete(self) -> None:
        where, test = self._condition()
        self._spark(f"delete from {self._spark_name} where {where}")
        self._keep(test)

    def _spark_merge(self) -> None:
        given = self._some()
        matched = "when matched then update set * when not matched then insert *"
        self._spark(f"merge into {self._spark_name} t using src s on t.id = s.id {matched}", given)
        self._put(given)

    def _spark(self, statement: str, rows: list[Row] | None = None) -> None:
        try:
            self._peer.sql(statement, {} if rows is None else {"src": self._arrow(rows)})
        except PeerFailureError as error:
            # The statement took place: it has no rows to answer with.
            if _NO_ANSWER not in str(error):
                raise

    def _pyiceberg_append(self) -> None:
        given = self._some(new=True)
        if given:
            self.theirs.append(self._arrow(given))
            self._put(given)

    def _pyiceberg_delete(self) -> None:
        where, test = self._condition()
        self.theirs.delete(where)
        self._keep(test)

    def _pyiceberg_overwrite(self) -> None:
        where, test = self._condition()
        self._keep(test)
        given = self._some(new=True)
        self.theirs.overwrite(self._arrow(given), where)
        self._put(given)


def _listed(rows: Any) -> list[tuple[tuple[str, Any], ...]]:
    return sorted((tuple(sorted(row.items())) for row in rows), key=repr)


def _path(location: str) -> str:
    return location.removeprefix("file://").removeprefix("file:")
