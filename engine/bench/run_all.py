"""Every claim in one run: `python -m bench.run_all [--quick] [--rows N] [--json FILE]`."""

from __future__ import annotations

import sys

from bench import (
    bulk_insert,
    clustering,
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
    )
    sys.exit(run([claim.measure for claim in claims]))
