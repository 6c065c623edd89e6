"""Claims about writes of rows into an Iceberg table of 2,000,000, against Iceberg's Spark runtime,
PyIceberg and pyarrow.

- Against Spark: an append, an upsert (`merge into`) of 220,000 rows, a delete by condition, each 5
  times as fast. Against PyIceberg's upsert: 5 times.
- The floor of an upsert is pyarrow alone: all rows read, those with the keys left out, the others
  written. Ours takes 2.2 times as long at most.

Every side writes into a table of its own without partitions, which each turn makes again.
PyIceberg's upsert takes minutes: it has one turn, and none to warm up.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import tideline
from bench.data import RECORD_KEY, SCHEMA, prepare_input
from bench.iceberg_workbench import COLUMNS
from bench.measurement import Claim, Series, close_report
from bench.quiet import wait_for_quiet
from bench.tideline_side import SPARK_SETTINGS
from bench.workbench import ROUNDS, ROUNDS_QUICK, WARM_UP_ROUNDS, bench_parser
from tideline.cache_directory import cache_directory
from tideline.testing.iceberg_peer import IcebergPeer
from tideline.testing.peer_environment import prepare_iceberg_peer

_WHERE = "units < 5"


def measure(rows: int, rounds: int, *, with_pyiceberg: bool = True) -> Sequence[Claim]:
    """Alternate the sides."""
    directory = cache_directory() / "bench"
    prepared = prepare_input(directory, rows=rows)
    base, changes = pq.read_table(prepared.base), pq.read_table(prepared.changes[0])
    names = ("append", "upsert", "delete")
    ours = {name: Series("tideline") for name in names}
    spark = {name: Series("spark") for name in names}
    floor, pyiceberg = Series("pyarrow"), Series("pyiceberg")
    with tempfile.TemporaryDirectory(dir=directory, prefix="run-") as folder:
        peer = IcebergPeer(prepare_iceberg_peer(), Path(folder), spark_settings=SPARK_SETTINGS)
        try:
            for turn in range(-WARM_UP_ROUNDS, rounds):
                scratch = Path(folder) / f"turn-{turn}"
                scratch.mkdir()
                found = (
                    _ours(scratch, base, changes),
                    _spark(peer, turn, base, prepared.changes[0]),
                )
                least = _floor(scratch, base, changes)
                print(f"  round {turn + 1}: {found}, floor {least:.2f}", flush=True)
                assert found[0]["rows"] == found[1]["rows"], "both have the same rows"
                if turn < 0:
                    continue
                floor.add(least)
                for name in names:
                    ours[name].add(found[0][name])
                    spark[name].add(found[1][name])
            if with_pyiceberg:
                pyiceberg.add(_pyiceberg(Path(folder), base, changes))
        finally:
            peer.close()
    claims = [
        Claim(f"{name}, against Iceberg on Spark", ours[name], spark[name], 5) for name in names
    ]
    claims.append(Claim("upsert, against pyarrow", ours["upsert"], floor, within=2.2))
    if with_pyiceberg:
        claims.append(Claim("upsert, against PyIceberg", ours["upsert"], pyiceberg, faster_by=5))
    return claims


def _ours(folder: Path, base: pa.Table, changes: pa.Table) -> dict[str, float]:
    table = tideline.create_iceberg(str(folder / "ours"), SCHEMA, key=RECORD_KEY)
    return {
        "append": _seconds(lambda: table.write(base)),
        "upsert": _seconds(lambda: table.write(changes, "upsert")),
        "delete": _seconds(lambda: table.delete(_WHERE)),
        "rows": table.count(),
    }


def _spark(peer: IcebergPeer, turn: int, base: pa.Table, source: Path) -> dict[str, float]:
    name = f"lake.bench.orders_{turn + WARM_UP_ROUNDS}"
    peer.run(f"create table {name} ({COLUMNS}) using iceberg")
    found: dict[str, float] = {}
    merge = (
        f"merge into {name} t using parquet.`{source}` c on t.{RECORD_KEY} = c.{RECORD_KEY} "
        "when matched then update set * when not matched then insert *"
    )
    uri = str(peer.warehouse / "bench" / name.rpartition(".")[2])
    found["append"] = _seconds(lambda: peer.append(uri, base))
    found["upsert"] = peer.run(merge)
    found["delete"] = peer.run(f"delete from {name} where {_WHERE}")
    found["rows"] = peer.sql(f"select count(*) as n from {name}")["n"][0].as_py()
    return found


def _floor(folder: Path, base: pa.Table, changes: pa.Table) -> float:
    path = folder / "floor.parquet"
    pq.write_table(base, path, compression="zstd")

    def rewrite() -> None:
        rows = pq.read_table(path)
        gone = pc.is_in(rows[RECORD_KEY], value_set=changes[RECORD_KEY].combine_chunks())
        merged = pa.concat_tables([rows.filter(pc.invert(gone)), changes])
        pq.write_table(merged, folder / "merged.parquet", compression="zstd")

    return _seconds(rewrite)


def _pyiceberg(folder: Path, base: pa.Table, changes: pa.Table) -> float:
    from pyiceberg.catalog import load_catalog

    uri, warehouse = f"sqlite:///{folder}/catalog.db", f"file://{folder}/warehouse"
    catalog = load_catalog("bench", type="sql", uri=uri, warehouse=warehouse)
    catalog.create_namespace("db")
    table: Any = catalog.create_table("db.orders", base.schema)
    table.append(base)
    return _seconds(lambda: table.upsert(changes, join_cols=[RECORD_KEY]))


def _seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print a table, and write the JSON; the exit code of `close_report`."""
    parser = bench_parser("Writes compared with Iceberg's, on this machine")
    parser.add_argument("--without-pyiceberg", action="store_true", help="whose upsert takes long")
    chosen = parser.parse_args(arguments)
    load = wait_for_quiet(chosen.wait * 60)
    rounds = ROUNDS_QUICK if chosen.quick else ROUNDS
    claims = measure(chosen.rows, rounds, with_pyiceberg=not chosen.without_pyiceberg)
    return close_report(claims, (), load_at_start=load, json_path=chosen.json)


if __name__ == "__main__":
    sys.exit(main())
