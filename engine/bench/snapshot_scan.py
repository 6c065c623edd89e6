"""Claim: an aggregate over a snapshot stays within 1.05 times of Spark over plain parquet.

The same session runs the same query over the same rows, once through our snapshot of a table and
once over Spark's own partitioned parquet. Hudi's time is shown next to it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.hudi_side import metadata_table
from bench.measurement import Claim, Limit, Series
from bench.workbench import Workbench, run

STATEMENT = (
    "select region, count(*), sum(units), max(updated_at), count(distinct state), max(note)"
    " from t where price > 20 group by region order by region"
)


def measure(bench: Workbench) -> tuple[Sequence[Claim], Sequence[Limit]]:
    """Alternate the three readers; every answer must be the same."""
    ours, plain, hudi = Series("tideline"), Series("spark, plain parquet"), Series("hudi")
    table, folder = bench.fresh("scan-ours"), bench.fresh("scan-plain")
    bench.tideline.create(table, bench.input.base)
    bench.tideline.write(table, bench.input.base, operation="bulk_insert")
    bench.tideline.write_plain(folder, bench.input.base)
    peer_table = bench.fresh("scan-hudi")
    options = metadata_table(True)
    bench.hudi.write(peer_table, bench.input.base, operation="bulk_insert", options=options)
    for turn in bench.turns():
        our_seconds, our_answer = bench.tideline.aggregate(table, STATEMENT)
        plain_seconds, plain_answer = bench.tideline.aggregate_plain(folder, STATEMENT)
        hudi_seconds, hudi_answer = bench.hudi.aggregate(peer_table, STATEMENT, options)
        assert our_answer == plain_answer == hudi_answer, "the readers disagree"
        if turn is not None:
            ours.add(our_seconds)
            plain.add(plain_seconds)
            hudi.add(hudi_seconds)
    claims = (
        Claim("snapshot aggregate, against plain parquet", ours, plain, within=1.05),
        Claim("snapshot aggregate, against Hudi", ours, hudi, faster_by=1),
    )
    return claims, ()


if __name__ == "__main__":
    sys.exit(run([measure]))
