"""Twin histories: one table that Iceberg's Spark runtime changes alone, and one that Tideline and
Spark change in turns, by the same steps. After each both have the same rows, for both readers."""

from __future__ import annotations

import datetime as dt
import random
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tideline
from tideline.iceberg_lake_table import IcebergLakeTable
from tideline.testing.iceberg_peer import DeleteFileOnDisk, IcebergPeer
from tideline.testing.json_line_process import PeerFailureError

_NO_ROWS = "EMPTY_SCHEMA_NOT_SUPPORTED"
_FIELD_ID = b"PARQUET:field_id"
_ALL = {"rewrite-all": "true"}
_DAY, _SECOND = dt.timedelta(days=1), dt.timedelta(seconds=1)
_EPOCH = dt.datetime(1970, 1, 1)
KINDS: dict[str, tuple[pa.DataType, tuple[Any, ...], tuple[str, ...]]] = {
    "int": (pa.int32(), (0, -8, 7, 100, 2**31 - 1), ("{}", "bucket(3, {})", "truncate(10, {})")),
    "bigint": (pa.int64(), (0, -8, 7, 2**62), ("bucket(3, {})", "truncate(10, {})")),
    "double": (pa.float64(), (0.0, -0.0, 1.5, float("inf"), float("nan")), ()),
    "string": (pa.string(), ("", "ab", "ü😀", "a/b=c d%"), ("{}", "truncate(1, {})")),
    "binary": (pa.binary(), (b"", b"\xff\xff", b"a"), ("bucket(3, {})",)),
    "boolean": (pa.bool_(), (True, False), ("{}",)),
    "decimal(6,2)": (
        pa.decimal128(6, 2),
        (Decimal("0.00"), Decimal("-50.01"), Decimal("1.25")),
        ("truncate(50, {})",),
    ),
    "date": (
        pa.date32(),
        tuple(_EPOCH.date() + _DAY * days for days in (0, -1, 400, -20_000)),
        ("days({})", "months({})", "years({})"),
    ),
    "timestamp_ntz": (
        pa.timestamp("us"),
        tuple(_EPOCH + _SECOND * seconds for seconds in (0, -1, 18_000, -108_000, 10**9)),
        ("hours({})", "days({})"),
    ),
}
"""Types of Spark: those of Arrow, values, and what a table is partitioned by."""
_COMPARED = ("int", "bigint", "string", "decimal(6,2)", "date", "timestamp_ntz")
_WIDER = {"int": "bigint"}


class TwinHistory:
    """Both tables, in the peer's catalog."""

    def __init__(self, peer: IcebergPeer, seed: int) -> None:
        self._peer, self._chance = peer, random.Random(seed)
        chance = self._chance
        self.version = chance.choice([1, 2, 2, 3, 3])
        self.columns = {"id": "bigint", "k": "string", "n": "int"}
        for kind in chance.sample([*KINDS], 3):
            self.columns[f"c{len(self.columns)}"] = kind
        self._members = {"a": "int", "b": "string"}
        self._next = self._names = 0
        self._placed: list[str] = []
        self.said: list[str] = []
        self._names_of = [f"lake.twins.{side}{seed}" for side in ("spark", "both")]
        self._folder = peer.warehouse / "twins" / f"both{seed}"
        mode = chance.choice(["copy-on-write", "merge-on-read"]) if self.version > 1 else ""
        properties = {
            "format-version": str(self.version),
            "write.distribution-mode": "none",
            "write.spark.fanout.enabled": "true",
            **{f"write.{what}.mode": mode for what in ("delete", "update", "merge") if mode},
            **chance.choice([{}, {"write.metadata.metrics.default": "counts"}]),
        }
        listed = ", ".join(f"'{name}'='{value}'" for name, value in properties.items())
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        place = self._placement() if chance.random() < 0.5 else None
        self._both(
            f"create table {{t}} ({columns}, st struct<a:int,b:string>) using iceberg"
            f" {f'partitioned by ({place})' if place else ''} tblproperties({listed})"
        )

    @property
    def ours(self) -> IcebergLakeTable:
        """The table of both."""
        return tideline.open_iceberg(str(self._folder))

    def step(self) -> None:
        """One change of both tables."""
        steps = (
            *(self._append, self._append, self._delete, self._update, self._upsert),
            *(self._overwrite, self._delete_by_value, self._change_columns, self._change_spec),
            *(self._serve, self._upgrade, self._branch),
        )
        chosen = self._chance.choice(steps)
        self.said.append(chosen.__name__)
        chosen()

    def check(self) -> None:
        """Both tables have the same rows for both readers, with a filter and without."""
        spark, both = (self._peer.sql(f"select * from {name}") for name in self._names_of)
        ours = self.ours
        rows = _texts(spark)
        assert _texts(both) == rows
        assert _texts(ours.to_arrow()) == rows
        assert ours.count() == len(rows)
        for _ in range(2):
            where, expression = self._condition()
            wanted = self._peer.sql(f"select id from {self._names_of[0]} where {where}")
            seen = self._peer.sql(f"select id from {self._names_of[1]} where {where}")
            assert _texts(seen) == _texts(wanted), where
            found = ours.to_arrow(["id"], filter=expression)
            assert _texts(found) == _texts(wanted), where
        assert not ours.check()

    def _both(self, *statements: str) -> None:
        self.said += statements
        for name in self._names_of:
            self._peer.run(*(statement.replace("{t}", name) for statement in statements))

    def _changed(
        self, spark: str, ours: Callable[[], object], rows: pa.Table | None = None
    ) -> None:
        """One statement of Spark's, and for the second table that, or our call."""
        self.said.append(spark if rows is None else f"{spark} {rows.to_pylist()}")
        for name in self._names_of:
            if name == self._names_of[1] and self._chance.random() < 0.75:
                ours()
                continue
            try:
                self._peer.sql(spark.replace("{t}", name), {} if rows is None else {"src": rows})
            except PeerFailureError as error:
                # The statement took place: it has no rows to answer with.
                if _NO_ROWS not in str(error):
                    raise

    def _append_by_spark(self, rows: pa.Table) -> None:
        """To the first table."""
        self._peer.append(str(self._folder.with_name(self._names_of[0].rpartition(".")[2])), rows)

    def _append(self) -> None:
        rows = self._rows(self._chance.randrange(1, 8))
        self._changed(
            "insert into {t} by name select * from src", lambda: self.ours.write(rows), rows
        )

    def _delete(self) -> None:
        where, expression = self._condition()
        self._changed(f"delete from {{t}} where {where}", lambda: self.ours.delete(expression))

    def _update(self) -> None:
        where, expression = self._condition()
        name = self._chance.choice([column for column in self.columns if column != "id"])
        value = self._value(self.columns[name])
        scalar = pa.scalar(value, KINDS[self.columns[name]][0])
        literal = _literal(value, self.columns[name])
        self._changed(
            f"update {{t}} set {name} = {literal} where {where}",
            lambda: self.ours.update(expression, {name: scalar}),
        )

    def _upsert(self) -> None:
        ids = self._peer.sql(f"select distinct id from {self._names_of[0]}")["id"].to_pylist()
        again = self._chance.sample(sorted(ids), min(len(ids), 3))
        rows = pa.concat_tables([self._rows(2), self._rows(len(again), again)])
        matched = "when matched then update set * when not matched then insert *"
        self._changed(
            f"merge into {{t}} t using src s on t.id = s.id {matched}",
            lambda: self.ours.write(rows, "upsert", key="id"),
            rows,
        )

    def _overwrite(self) -> None:
        where, expression = self._condition()
        rows = self._rows(2)
        self._peer.run(f"delete from {self._names_of[0]} where {where}")
        self._append_by_spark(rows)
        self.said.append(f"overwrite where {where} {rows.to_pylist()}")
        self.ours.write(rows, "overwrite", where=expression)

    def _delete_by_value(self) -> None:
        """Equality deletes for the whole table, as Flink writes them."""
        specs = [spec.spec_id for spec in self.ours.metadata.partition_specs if not spec.fields]
        stored = self._peer.sql(f"select * from {self._names_of[0]}")
        if self.version == 1 or not specs or not stored.num_rows:
            return
        names = self._chance.sample(
            [name for name in self.columns if self.columns[name] != "double"], 2
        )
        picked = stored.select(names).slice(self._chance.randrange(stored.num_rows), 2)
        fields = [self.ours.schema.field(name) for name in names]
        path = self._folder / "data" / f"{uuid.uuid4()}.parquet"
        path.parent.mkdir(exist_ok=True)
        columns = [picked[item.name].cast(item.type) for item in fields]
        pq.write_table(pa.table(columns, schema=pa.schema(fields)), path)
        ids = tuple(int(item.metadata[_FIELD_ID]) for item in fields)
        size, count = path.stat().st_size, picked.num_rows
        deletes = DeleteFileOnDisk(str(path), size, count, equality_ids=ids, spec_id=specs[0])
        self._peer.add_deletes(str(self._folder), deletes)
        self.said.append(f"deletes by value {picked.to_pylist()}")
        on = " and ".join(f"t.{name} <=> s.{name}" for name in names)
        rest = f"from {self._names_of[0]} t left anti join src s on {on}"
        kept = self._peer.sql(f"select t.* {rest}", {"src": picked})
        self._peer.run(f"delete from {self._names_of[0]}")
        self._append_by_spark(kept)

    def _change_columns(self) -> None:
        self._names += 1
        new = f"x{self._names}"
        name = self._chance.choice([column for column in self.columns if column not in ("id", "k")])
        member = self._chance.choice([*self._members])
        match self._chance.randrange(5):
            case 0:
                self._both(f"alter table {{t}} add column {new} string")
                self.columns[new] = "string"
            case 1 if not any(name in place for place in self._placed):
                self._both(f"alter table {{t}} drop column {name}")
                del self.columns[name]
            case 2 if self.columns[name] in _WIDER:
                self.columns[name] = _WIDER[self.columns[name]]
                self._both(f"alter table {{t}} alter column {name} type {self.columns[name]}")
            case 3:
                self._both(f"alter table {{t}} rename column st.{member} to {new}")
                self._members = {
                    new if known == member else known: kind for known, kind in self._members.items()
                }
            case 4:
                self._both(f"alter table {{t}} add column st.{new} int")
                self._members[new] = "int"

    def _change_spec(self) -> None:
        if self._placed and self._chance.random() < 0.5:
            self._both(f"alter table {{t}} drop partition field {self._placed.pop()}")
        elif place := self._placement():
            self._both(f"alter table {{t}} add partition field {place}")

    def _serve(self) -> None:
        service = self._chance.randrange(5)
        self.said.append(f"service {service}")
        match service:
            case 0:
                self.ours.rewrite(options=_ALL)
            case 1:
                self.ours.rewrite(
                    strategy="sort", sort_order="id DESC", where="id > 2", options=_ALL
                )
            case 2:
                self.ours.run("rewrite_manifests", options={"min-manifests": "1"})
            case 3 if self.version == 2:
                self.ours.run("rewrite_position_deletes", options=_ALL)
            case _:
                self.ours.expire(older_than=dt.timedelta(0))

    def _upgrade(self) -> None:
        if self.version < 3 and self._chance.random() < 0.3:
            self.version += 1
            upgraded = f"alter table {{t}} set tblproperties('format-version'='{self.version}')"
            self._changed(upgraded, lambda: self.ours.alter().upgrade(self.version).commit())

    def _branch(self) -> None:
        """Rows by way of a branch that `main` follows."""
        if self.ours.current_snapshot is None:
            return
        self._names += 1
        branch, rows = f"b{self._names}", self._rows(2)
        self.ours.alter().create_branch(branch).commit()
        self.ours.write(rows, branch=branch)
        self.ours.delete("id < 3", branch=branch)
        self.ours.alter().fast_forward("main", branch).drop_branch(branch).commit()
        self.said.append(f"branch {rows.to_pylist()}")
        self._append_by_spark(rows)
        self._peer.run(f"delete from {self._names_of[0]} where id < 3")

    def _placement(self) -> str | None:
        """Another partition field, by a column that none is by."""
        free = [name for name in self.columns if not any(name in placed for placed in self._placed)]
        name = self._chance.choice(free) if free else None
        found = () if name is None else KINDS[self.columns[name]][2]
        if not found:
            return None
        self._placed.append(self._chance.choice(found).format(name))
        return self._placed[-1]

    def _value(self, kind: str) -> Any:
        return None if self._chance.random() < 0.15 else self._chance.choice(KINDS[kind][1])

    def _rows(self, count: int, ids: list[int] | None = None) -> pa.Table:
        rows = []
        for number in range(count):
            self._next += 1
            row = {name: self._value(kind) for name, kind in self.columns.items()}
            row["id"] = self._next if ids is None else ids[number]
            members = {name: self._value(kind) for name, kind in self._members.items()}
            row["st"] = None if self._chance.random() < 0.2 else members
            rows.append(row)
        inner = pa.struct([(name, KINDS[kind][0]) for name, kind in self._members.items()])
        columns = [(name, KINDS[kind][0]) for name, kind in self.columns.items()]
        return pa.Table.from_pylist(rows, pa.schema([*columns, ("st", inner)]))

    def _condition(self) -> tuple[str, pc.Expression]:
        """In Spark's SQL, and as an expression."""
        name = self._chance.choice(
            [name for name in self.columns if self.columns[name] in _COMPARED]
        )
        column, kind = pc.field(name), self.columns[name]
        value = self._value(kind)
        if value is None:
            return f"{name} is null", column.is_null()
        scalar, literal = pa.scalar(value, KINDS[kind][0]), _literal(value, kind)
        match self._chance.randrange(3):
            case 0:
                return f"{name} = {literal}", column == scalar
            case 1:
                return f"{name} < {literal}", column < scalar
        return f"{name} >= {literal}", column >= scalar


def _literal(value: Any, kind: str) -> str:
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    text = "null" if value is None else f"'{value}'"
    return f"cast({text} as {kind})"


def _texts(rows: pa.Table) -> list[str]:
    """Rows as texts, in an order of their own; NaN is equal to itself there."""
    return sorted(repr(row) for row in rows.to_pylist())
