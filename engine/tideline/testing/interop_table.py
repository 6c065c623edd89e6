"""One table that Tideline, Hudi's bundle and hudi-rs share, and the model of what it must hold.

Every write goes to the table and to the model; `check` then reads the table with all three and
compares each answer with the model, and their meta columns with one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from tideline.commit_report import CommitReport
from tideline.hudi.table.layout.known_layouts import TABLE_VERSION
from tideline.lake_table import LakeTable
from tideline.testing.hudi_peer import HudiPeer, version_options
from tideline.testing.table_model import TableModel, canonical_with_meta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ORDERING = "ts"
METADATA_TABLE_ON = {"hoodie.metadata.enable": "true"}
METADATA_TABLE_OFF = {"hoodie.metadata.enable": "false"}

_GENERATORS = "org.apache.hudi.keygen"


@dataclass(frozen=True, slots=True)
class InteropLayout:
    """Keys, partitions and index of a table, in the words of both engines."""

    name: str
    record_key: tuple[str, ...] = ("id",)
    partition_by: tuple[str, ...] = ("region",)
    index: str = "SIMPLE"
    hive_style: bool = False
    url_encode: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)
    version: int = TABLE_VERSION

    @property
    def global_index(self) -> bool:
        return self.index.startswith("GLOBAL_")

    def table_properties(self) -> dict[str, str]:
        """The properties of a table that Tideline creates."""
        return {"hoodie.index.type": self.index, **self.properties}

    def creating_options(self) -> dict[str, str]:
        """The options with which Hudi creates such a table."""
        return {
            "hoodie.datasource.write.recordkey.field": ",".join(self.record_key),
            "hoodie.datasource.write.partitionpath.field": ",".join(self.partition_by),
            "hoodie.datasource.write.precombine.field": ORDERING,
            "hoodie.datasource.write.keygenerator.class": f"{_GENERATORS}.{self._generator()}",
            "hoodie.datasource.write.hive_style_partitioning": _flag(self.hive_style),
            "hoodie.datasource.write.partitionpath.urlencode": _flag(self.url_encode),
            **self.writing_options(),
        }

    def writing_options(self) -> dict[str, str]:
        """What Hudi needs as options to write a table that exists: the rest is in the table."""
        return {
            "hoodie.table.name": self.name,
            "hoodie.index.type": self.index,
            **version_options(self.version),
            **self.properties,
        }

    def _generator(self) -> str:
        if not self.partition_by:
            return "NonpartitionedKeyGenerator"
        composite = len(self.record_key) > 1 or len(self.partition_by) > 1
        return "ComplexKeyGenerator" if composite else "SimpleKeyGenerator"


class InteropTable:
    """A table in a local folder, written by either engine and checked against the model."""

    def __init__(
        self, layout: InteropLayout, folder: Path, spark: SparkSession, peer: HudiPeer
    ) -> None:
        self.layout = layout
        self.path = folder / layout.name
        self.uri = str(self.path)
        self.spark = spark
        self.peer = peer
        self.model = TableModel(
            record_key=layout.record_key,
            partition_by=layout.partition_by,
            ordering=ORDERING,
            global_index=layout.global_index,
        )

    def create(self, schema: pa.Schema) -> None:
        """Create the table with Tideline; without this, Hudi's first write creates it."""
        LakeTable.create(
            self.uri,
            name=self.layout.name,
            schema=schema,
            record_key=self.layout.record_key,
            partition_by=self.layout.partition_by,
            ordering=[ORDERING],
            hive_style=self.layout.hive_style,
            url_encode=self.layout.url_encode,
            table_version=self.layout.version,
            properties=self.layout.table_properties(),
        )

    def write(
        self, operation: str, rows: pa.Table, options: Mapping[str, str] | None = None
    ) -> CommitReport:
        """Write with Tideline, which takes no word about the metadata table that Hudi keeps."""
        self.model.apply(operation, rows)
        frame = self.spark.createDataFrame(rows)
        ours = {name: text for name, text in (options or {}).items()
                if name not in METADATA_TABLE_ON}  # fmt: skip
        return LakeTable.open(self.uri).write(frame, operation, options=ours)

    def write_with_hudi(
        self, operation: str, rows: pa.Table, options: Mapping[str, str] | None = None
    ) -> None:
        """Write with Hudi's bundle."""
        self.model.apply(operation, rows)
        exists = (self.path / ".hoodie" / "hoodie.properties").exists()
        described = self.layout.writing_options() if exists else self.layout.creating_options()
        if operation == "delete_partition":
            paths = sorted(set(rows.column(self.layout.partition_by[0]).to_pylist()))
            described["hoodie.datasource.write.partitions.to.delete"] = ",".join(paths)
        self.peer.write(
            self.uri, rows, operation=operation, options={**described, **(options or {})}
        )

    def read(self) -> pa.Table:
        """All rows through Tideline, meta columns included."""
        return LakeTable.open(self.uri).snapshot(self.spark).toArrow()

    def check(self) -> None:
        """Raise AssertionError unless all three readers see what the model says."""
        expected = self.model.rows()
        answers = {
            "tideline": self.read(),
            "hudi": self.peer.read(self.uri),
            "hudi-rs": self.peer.read_with_hudi_rs(self.uri),
        }
        for reader, answer in answers.items():
            found = self.model.canonical(answer) if answer.num_rows else []
            assert found == expected, f"{reader} reads other rows than the model"
        with_meta = canonical_with_meta(answers["tideline"])
        assert canonical_with_meta(answers["hudi"]) == with_meta, "meta columns differ for Hudi"
        if answers["hudi-rs"].num_rows:
            rows = canonical_with_meta(answers["hudi-rs"])
            assert rows == with_meta, "meta columns differ for hudi-rs"

    def data_files(self) -> set[str]:
        """Paths of all data files in the folder, whether a commit names them or not."""
        return {
            str(path.relative_to(self.path))
            for path in self.path.rglob("*.parquet")
            if ".hoodie" not in path.relative_to(self.path).parts
        }

    @property
    def timeline_folder(self) -> Path:
        """Where the active timeline's files are."""
        return self.path / LakeTable.open(self.uri).hoodie_table.timelines.layout.directory

    def timeline_files(self) -> set[str]:
        """Names of the files that make up the timeline."""
        return {path.name for path in self.timeline_folder.iterdir() if path.name[0] == "2"}


def _flag(value: bool) -> str:
    return "true" if value else "false"
