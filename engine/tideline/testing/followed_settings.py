"""The kind of table a random history with followers is about, from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tideline.hudi.table.table_config import ICEBERG, PUBLISH, PUBLISH_MERGE, TableType
from tideline.testing.small_table import CHEAP, COMPACTED_OFTEN, QUIET

PARTITIONS = 3


@dataclass(frozen=True, slots=True)
class FollowedSettings:
    """The table and its publication: after every commit where it `follows`, in a catalog's table or
    the folder. `retained` commits are kept by a clean."""

    table_type: TableType
    version: int
    is_partitioned: bool
    is_global: bool
    is_ordered: bool
    index: str
    keeps_metadata_table: bool
    fills_small_files: bool
    log_format: str
    follows: bool
    in_catalog: bool
    retained: int
    keeps_versions: bool

    @classmethod
    def drawn(cls, random: Random) -> FollowedSettings:
        """Each kind of table now and then."""

        def chance(share: float) -> bool:
            return random.random() < share

        version = random.choice((6, 8, 9))
        is_partitioned = chance(0.8)
        is_global = is_partitioned and chance(0.25)
        index = random.choice(("SIMPLE", "BLOOM", "BUCKET"))
        return cls(
            random.choice((*TableType, TableType.MERGE_ON_READ)),
            version,
            is_partitioned,
            is_global,
            chance(0.6),
            random.choice(("GLOBAL_SIMPLE", "GLOBAL_BLOOM")) if is_global else index,
            version > 6 and chance(0.3),
            chance(0.3),
            random.choice(("parquet", "avro")),
            chance(0.4),
            chance(0.4),
            random.randint(1, 3),
            chance(0.2),
        )

    def properties(self) -> dict[str, str]:
        """Those that the table is created with."""
        found = {
            **CHEAP,
            **QUIET,
            "hoodie.index.type": self.index,
            "hoodie.bucket.index.num.buckets": "2",
            "hoodie.logfile.data.block.format": self.log_format,
            "hoodie.clean.commits.retained": str(self.retained),
            "hoodie.clean.fileversions.retained": "1",
            "hoodie.keep.min.commits": str(self.retained + 1),
            "hoodie.keep.max.commits": str(self.retained + 2),
            "hoodie.clustering.inline.max.commits": "1",
            "hoodie.compact.inline.max.delta.commits": "1",
            "hoodie.log.compaction.blocks.threshold": "2",
            "hoodie.clustering.plan.strategy.small.file.limit": "100000000",
            "hoodie.write.set.null.for.missing.columns": "true",
            PUBLISH_MERGE: "true",
        }
        if self.keeps_versions:
            found["hoodie.clean.policy"] = "KEEP_LATEST_FILE_VERSIONS"
        if self.fills_small_files:
            found["hoodie.parquet.small.file.limit"] = "1000000"
        if self.keeps_metadata_table:
            found |= COMPACTED_OFTEN
        if self.follows:
            found[PUBLISH] = ICEBERG
        return found
