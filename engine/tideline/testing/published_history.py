"""A random history of a table that is published as Iceberg after every step.

A seed chooses the table, whether a catalog keeps the publication, and the steps: writes of every
kind, services, savepoints and restores, new columns, dropped partitions. After each step the
publication must have exactly the rows that a reader of the Hudi table sees, of a merge-on-read
table whose logs are not merged those of its base files.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tideline.errors import ConfigError
from tideline.hudi.table.table_config import ICEBERG, PUBLISH, PUBLISH_MERGE, TableType
from tideline.hudi.timeline.instant import COMMIT_ACTIONS
from tideline.iceberg.manifest.manifest_reading import live_paths, manifests_of
from tideline.iceberg.table.catalog_name import DEFAULT_CATALOG, address_variable
from tideline.lake_table import LakeTable
from tideline.publication.place import CatalogPlace
from tideline.publication.publish import preview_publication
from tideline.publication.published_table import INSTANT, PublishedTable

_DUE = {
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "5",
}
_KEYS = 30
_FOLDERS = ("2026-01-01", "2026-01-02", "2026-01-03")

Rows = Callable[[str], pa.Table]
"""Reads the published table whose folder, or newest metadata file, this is."""


class PublishedHistory:
    """One history under way; `readers` must all see the same rows."""

    def __init__(self, seed: int, folder: Path, readers: dict[str, Rows]) -> None:
        self._chance = random.Random(seed)
        self._readers = readers
        self._uri = str(folder / "published")
        self._value = 0
        self._extra = 0
        self.steps: list[str] = []
        self.seed = seed
        self.table_type = self._chance.choice(("COPY_ON_WRITE", "COPY_ON_WRITE", "MERGE_ON_READ"))
        self._is_followed = self._chance.random() < 0.5
        asked = {PUBLISH: ICEBERG} if self._is_followed else {}
        self._is_merged = self._chance.random() < 0.6
        if self._is_merged:
            asked[PUBLISH_MERGE] = "true"
        if self._chance.random() < 0.3:
            catalog = f"sqlite:///{folder}/catalog.db"
            # The address that a table names is asked where the environment names it, too.
            os.environ[address_variable(DEFAULT_CATALOG)] = catalog
            asked |= CatalogPlace.of(catalog, "lake.published").to_properties()
        LakeTable.create(
            self._uri,
            record_key="id",
            partition_by=self._chance.choice(("day", "day", "")),
            hive_style=self._chance.random() < 0.5,
            table_type=self.table_type,
            table_version=self._chance.choice((6, 8, 9)),
            properties={**_DUE, "hoodie.compact.inline": "false", **asked},
        )

    def run(self, steps: int) -> None:
        """Raise AssertionError with the seed and the steps when a reader sees other rows."""
        acts = (
            *[self._upsert] * 4, self._insert, self._delete, self._overwrite, self._drop,
            self._cluster, self._compact, self._clean, self._archival, self._savepoint,
            self._restore, self._new_column, self._outage,
        )  # fmt: skip
        try:
            self._take(self._insert)
            for _ in range(steps):
                self._take(self._chance.choice(acts))
        except Exception as error:
            told = "\n".join(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))
            raise AssertionError(f"{error}\nseed {self.seed}, {self.table_type}\n{told}") from error

    def _take(self, act: Callable[[], object]) -> None:
        self.steps.append(act.__name__.strip("_"))
        act()
        if not self._is_followed:
            self._open().publish()
        self.check()
        self._check_history()

    def check(self) -> None:
        """Every reader sees the rows of the Hudi table."""
        table = self._open()
        if table.schema is None:
            return
        rows = table.to_arrow() if self._is_merged else base_file_rows(table)
        wanted = _sorted(rows, table.schema.names)
        for name, read in self._readers.items():
            found = _sorted(read(self._published()), table.schema.names)
            assert found == wanted, f"{name} reads {found}, not {wanted}"
        assert [finding for finding in table.check() if finding.severity.value == "error"] == []

    def _check_history(self) -> None:
        """No snapshot needs a file that is gone, and the newest has the newest commit."""
        table = self._open().hoodie_table
        place = PublishedTable(table)
        loaded = place.load()
        assert loaded is not None
        assert not preview_publication(table).files_added
        commits = table.timeline().of(*COMMIT_ACTIONS).completed().instants
        assert loaded.metadata.properties[INSTANT] == str(commits[-1].time)
        for snapshot in loaded.metadata.snapshots:
            for manifest in manifests_of(place.operations.io, snapshot):
                for path in live_paths(place.operations.io, manifest):
                    assert place.operations.io.size_bytes(path), f"{snapshot} needs {path}"

    def _published(self) -> str:
        place = PublishedTable(self._open().hoodie_table)
        loaded = place.load()
        if place.place is None or loaded is None:
            return self._uri
        return loaded.metadata_location.removeprefix("file://")

    def _open(self) -> LakeTable:
        return LakeTable.open(self._uri)

    def _rows(self, count: int) -> pa.Table:
        keys = self._chance.sample(range(_KEYS), count)
        self._value += 1
        columns: dict[str, list[object]] = {
            "id": [f"k{key:02d}" for key in keys],
            "day": [_FOLDERS[key % len(_FOLDERS)] for key in keys],
            "v": [self._value + key / 100 for key in keys],
            "tags": [[str(key), "x"] if key % 2 else None for key in keys],
        }
        for number in range(self._extra):
            columns[f"extra{number}"] = [self._value * 10 + key for key in keys]
        return pa.table(columns)

    def _upsert(self) -> None:
        self._open().write(self._rows(self._chance.randint(1, 8)))

    def _insert(self) -> None:
        self._open().write(self._rows(12), "upsert")

    def _delete(self) -> None:
        self._open().write(self._rows(3), "delete")

    def _overwrite(self) -> None:
        self._open().write(self._rows(4), "insert_overwrite")

    def _drop(self) -> None:
        table = self._open()
        if table.hoodie_table.config.partition_fields:
            table.delete_partitions(self._chance.choice(table.hoodie_table.files.partitions()))

    def _cluster(self) -> None:
        self._open().run("clustering")

    def _compact(self) -> None:
        table = self._open()
        if table.hoodie_table.config.table_type is TableType.MERGE_ON_READ:
            table.run("compaction")

    def _clean(self) -> None:
        self._open().run("cleaning")

    def _archival(self) -> None:
        self._open().run("archival")

    def _outage(self) -> None:
        """Commits that are archived before they are published, unless each is as it is made."""
        for _ in range(7):
            self._upsert()
        self._archival()

    def _savepoint(self) -> None:
        try:
            self._open().savepoint()
        except ConfigError:
            self.steps[-1] += " (refused)"

    def _restore(self) -> None:
        saved = self._open().savepoints()
        if saved:
            self._open().restore(str(saved[-1].instant))

    def _new_column(self) -> None:
        self._extra = min(self._extra + 1, 3)
        self._upsert()


def base_file_rows(table: LakeTable) -> pa.Table:
    """The rows of the newest base files, read without anything of Iceberg."""
    hoodie = table.hoodie_table
    assert table.schema is not None
    view = hoodie.files.read_view(hoodie.timeline())
    files = [file for partition in view.partitions for file in view.latest_base_files(partition)]
    tables = []
    for file in files:
        with hoodie.store.open_reader(file.path) as reader:
            tables.append(pq.ParquetFile(reader).read())
    fields = list(table.schema)
    parts = [
        pa.table(
            {
                field.name: item[field.name].cast(field.type)
                if field.name in item.column_names
                else pa.nulls(len(item), field.type)
                for field in fields
            }
        )
        for item in tables
    ]
    return pa.concat_tables(parts) if parts else table.schema.empty_table()


def _sorted(rows: pa.Table, names: list[str]) -> list[dict[str, object]]:
    chosen = rows.select(names)
    order = pc.sort_indices(chosen, sort_keys=[("id", "ascending")])
    return list(chosen.take(order).to_pylist())
