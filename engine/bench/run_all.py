"""Every claim in one run: `python -m bench.run_all [--quick] [--rows N] [--json FILE]`."""

from __future__ import annotations

import sys

from bench import (
    bulk_insert,
    clustering,
    cold_write,
    compaction,
    snapshot_scan,
    to_arrow,
    upsert_cow,
    upsert_mor,
    upsert_with_metadata_table,
)
from bench.workbench import run

if __name__ == "__main__":
    claims = (
        upsert_cow,
        upsert_with_metadata_table,
        bulk_insert,
        snapshot_scan,
        to_arrow,
        upsert_mor,
        compaction,
        clustering,
        cold_write,
    )
    measures = [claim.measure for claim in claims]
    sys.exit(run([*measures, upsert_mor.measure_updates]))
