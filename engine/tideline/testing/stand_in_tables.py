"""Small tables that Hudi itself writes for tests, where tables of other makers are not at hand.

    python -m tideline.testing.stand_in_tables    make them into the user's cache folder

Each recipe is a life of one table: rows, operations, table services and a death or two, carried out
by Hudi's bundle. Next to the tables lie the rows that Hudi reads from them; hudi-rs has to agree
where it can. They are made once for these recipes and releases of Hudi, and never changed: copy a
table before writing to it.
"""

from __future__ import annotations

import fcntl
import hashlib
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tideline.cache_directory import cache_directory
from tideline.testing.hudi_peer import HudiPeer
from tideline.testing.interop_rows import typed_rows
from tideline.testing.interop_table import METADATA_TABLE_OFF, METADATA_TABLE_ON, InteropLayout
from tideline.testing.peer_environment import HUDI_BUNDLE, HUDI_REQUIREMENTS, prepare_hudi_peer
from tideline.testing.table_model import canonical_with_meta

MERGE_ON_READ = {
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
}
KEEP_ALL = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
COMPACT = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
CLUSTER = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}
CLEAN_AND_ARCHIVE = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
    # Nothing is archived that the metadata table has not compacted.
    "hoodie.metadata.compact.max.delta.commits": "1",
}
UNDO_BY_LISTING = {"hoodie.rollback.using.markers": "false"}


@dataclass(frozen=True, slots=True)
class Write:
    """One write of Hudi's; `completes` is false for one that dies before its commit."""

    operation: str
    rows: pa.Table
    options: Mapping[str, str] = field(default_factory=dict)
    completes: bool = True


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a table comes to be."""

    layout: InteropLayout
    options: Mapping[str, str]
    writes: tuple[Write, ...]
    version: int = 6

    @property
    def is_read_by_hudi_rs(self) -> bool:
        """Whether hudi-rs has to give Hudi's answer: it needs meta columns to do so."""
        return self.version == 6 and "hoodie.populate.meta.fields" not in self.options


def recipes() -> dict[str, Recipe]:
    """All stand-ins, by name."""
    north, all_of_it = ("north",), typed_rows(range(12), version=1)
    return {
        "merge_on_read": _a_life_with_services(),
        "copy_on_write": Recipe(
            InteropLayout("copy_on_write", record_key=("id", "line"), partition_by=()),
            {**METADATA_TABLE_OFF, **KEEP_ALL, "hoodie.index.type": "BLOOM"},
            (
                Write("bulk_insert", all_of_it),
                Write("upsert", typed_rows(range(8, 15), version=2)),
                Write("delete", typed_rows([0, 14], version=3)),
            ),
        ),
        "overwritten": Recipe(
            InteropLayout("overwritten"),
            {**METADATA_TABLE_OFF, **KEEP_ALL},
            (
                Write("insert", all_of_it),
                Write("insert_overwrite", typed_rows(range(4), version=2, regions=north)),
                Write("insert_overwrite_table", typed_rows(range(30, 36), version=3)),
            ),
        ),
        "rolled_back": Recipe(
            InteropLayout("rolled_back", partition_by=()),
            {**MERGE_ON_READ, **METADATA_TABLE_OFF, **KEEP_ALL,
             "hoodie.logfile.data.block.format": "parquet"},
            (
                Write("insert", all_of_it),
                Write("upsert", typed_rows(range(4), version=2)),
                Write("upsert", typed_rows(range(2, 6), version=3), completes=False),
                Write("upsert", typed_rows([7], version=4), UNDO_BY_LISTING),
                Write("delete", typed_rows([3], version=9)),
            ),
        ),
        "without_meta_columns": Recipe(
            InteropLayout("without_meta_columns", hive_style=True),
            {**METADATA_TABLE_OFF, **KEEP_ALL, "hoodie.populate.meta.fields": "false"},
            (Write("bulk_insert", all_of_it),),
        ),
        **{
            f"version_{version}": Recipe(
                InteropLayout(f"version_{version}"),
                {**MERGE_ON_READ, **METADATA_TABLE_OFF, **KEEP_ALL},
                (Write("insert", all_of_it), Write("upsert", typed_rows(range(4), version=2))),
                version=version,
            )
            for version in (8, 9)
        },
    }  # fmt: skip


def _a_life_with_services() -> Recipe:
    """Logs, compactions, clusterings, cleaning, archival; a row that only a log deletes."""
    return Recipe(
        InteropLayout("merge_on_read"),
        {**MERGE_ON_READ, **METADATA_TABLE_ON, **KEEP_ALL},
        (
            Write("insert", typed_rows(range(12), version=1)),
            Write("upsert", typed_rows(range(6), version=2)),
            Write("upsert", typed_rows(range(3, 9), version=3), COMPACT),
            Write("insert", typed_rows(range(12, 18), version=1), CLUSTER),
            Write("upsert", typed_rows(range(4), version=4)),
            Write("upsert", typed_rows(range(2, 14), version=5), CLEAN_AND_ARCHIVE),
            Write("upsert", typed_rows(range(2), version=6), {**COMPACT, **CLEAN_AND_ARCHIVE}),
            Write("upsert", typed_rows(range(5, 8), version=7), CLEAN_AND_ARCHIVE),
            Write("insert", typed_rows(range(20, 23), version=1), CLUSTER),
            Write("upsert", typed_rows([0, 20], version=8)),
            Write("delete", typed_rows([1], version=9)),
        ),
    )


def stand_in(name: str) -> Path:
    """The folder of a table, made if need be. Raises PeerUnavailableError without Hudi."""
    return made() / name


def answer(name: str) -> pa.Table:
    """All rows of a table, meta columns included, as Hudi reads them."""
    return pq.read_table(made() / "answers" / f"{name}.parquet")


@cache
def made() -> Path:
    """The folder of all stand-ins, made if need be. Raises PeerUnavailableError without Hudi."""
    folder = cache_directory() / "stand-ins" / _digest()
    folder.parent.mkdir(exist_ok=True)
    with (folder.parent / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _make_all(folder)
    return folder


def _digest() -> str:
    """What the tables depend on, in sixteen letters."""
    described = [
        (
            name,
            recipe.layout,
            sorted(recipe.options.items()),
            recipe.version,
            [
                (
                    write.operation,
                    sorted(write.options.items()),
                    write.completes,
                    write.rows.to_pylist(),
                )
                for write in recipe.writes
            ],
        )
        for name, recipe in recipes().items()
    ]
    text = repr((HUDI_BUNDLE, HUDI_REQUIREMENTS, described))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _make_all(folder: Path) -> None:
    environment = prepare_hudi_peer()
    with (
        tempfile.TemporaryDirectory(dir=folder.parent) as temporary,
        tempfile.TemporaryDirectory() as scratch,
        HudiPeer(environment, Path(scratch)) as peer,
    ):
        tables = Path(temporary) / "tables"
        (tables / "answers").mkdir(parents=True)
        for name, recipe in recipes().items():
            rows = _make(tables / name, recipe, peer)
            pq.write_table(rows, tables / "answers" / f"{name}.parquet")
        tables.rename(folder)


def _make(table: Path, recipe: Recipe, peer: HudiPeer) -> pa.Table:
    """One table, and what Hudi reads from it."""
    uri = str(table)
    for number, write in enumerate(recipe.writes):
        described = recipe.layout.writing_options() if number else recipe.layout.creating_options()
        options = {
            **described,
            **recipe.options,
            "hoodie.write.table.version": str(recipe.version),
            **write.options,
        }
        peer.write(uri, write.rows, operation=write.operation, options=options)
        if not write.completes:
            _take_back_the_newest(table)
    rows = peer.read(uri)
    if recipe.is_read_by_hudi_rs:
        by_rust = canonical_with_meta(peer.read_with_hudi_rs(uri))
        assert by_rust == canonical_with_meta(rows), f"hudi-rs reads {table.name} otherwise"
    return rows


def _take_back_the_newest(table: Path) -> None:
    """Leave the newest write as a process leaves it that dies right before its commit."""
    newest = max((table / ".hoodie").glob("*commit"))
    newest.unlink()
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)


def main() -> int:
    """Make the tables and print where they are."""
    print(made())
    return 0


if __name__ == "__main__":
    sys.exit(main())
