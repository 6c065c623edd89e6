"""Every claim in one run: `python -m bench.run_all [--quick] [--rows N] [--json FILE]`."""

from __future__ import annotations

import sys

from bench import bulk_insert, snapshot_scan, upsert_cow
from bench.workbench import run

if __name__ == "__main__":
    sys.exit(run([upsert_cow.measure, bulk_insert.measure, snapshot_scan.measure]))
