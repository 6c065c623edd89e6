"""Claim: bulk_insert is faster than Hudi's, with and without its metadata table.

And warm, it takes no longer than Spark writing the same rows as plain partitioned parquet.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.hudi_side import metadata_table
from bench.measurement import Claim, Limit, Series
from bench.workbench import Workbench, run


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the four writers, each into a new folder."""
    ours, plain = Series("tideline"), Series("spark, plain parquet")
    metadata_on, metadata_off = Series("hudi"), Series("hudi, no mdt")
    source = bench.input.base
    for turn in bench.turns():
        table = bench.fresh("bulk-ours")
        bench.tideline.create(table, source)
        seconds = {
            ours.name: bench.tideline.write(table, source, operation="bulk_insert"),
            plain.name: bench.tideline.write_plain(bench.fresh("bulk-plain"), source),
        }
        assert bench.tideline.last_report["rows_inserted"] == bench.input.rows
        for on, series in ((True, metadata_on), (False, metadata_off)):
            seconds[series.name] = bench.hudi.write(
                bench.fresh("bulk-hudi"),
                source,
                operation="bulk_insert",
                options=metadata_table(on),
            )
        if turn is not None:
            for series in (ours, plain, metadata_on, metadata_off):
                series.add(seconds[series.name])
    claims = (
        Claim("bulk_insert, against Hudi as it comes", ours, metadata_on, faster_by=1),
        Claim("bulk_insert, against Hudi without metadata table", ours, metadata_off, faster_by=1),
        Claim("bulk_insert, against plain partitioned parquet", ours, plain, within=1.0),
    )
    return claims, ()


if __name__ == "__main__":
    sys.exit(run([measure]))
