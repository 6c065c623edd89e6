"""Claim: keeping Hudi's metadata table costs an upsert at most a tenth of its time.

The same upsert as in `upsert_cow`, into tables of version 9 with and without the partition `files`
that every commit is entered in.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.measurement import Claim, Limit, Series
from bench.workbench import Workbench, run

VERSION = 9


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the two tables."""
    kept, without = Series("with metadata table"), Series("without")
    tables = {}
    for series, is_kept in ((kept, True), (without, False)):
        tables[series.name] = bench.fresh(f"base-{is_kept}")
        properties = {"hoodie.metadata.enable": str(is_kept).lower()}
        bench.tideline.load(
            tables[series.name], bench.input.base, table_version=VERSION, properties=properties
        )
        assert (tables[series.name] / ".hoodie" / "metadata").is_dir() is is_kept
    bench.upsert_by_turns((kept, without), tables)
    name = "upsert that keeps the metadata table, against none"
    return (Claim(name, kept, without, within=1.1),), ()


if __name__ == "__main__":
    sys.exit(run([measure]))
