"""PyIceberg's side of `iceberg_planning`: runs inside the peer's environment, without Tideline.

python pyiceberg_planning.py METADATA_FILE FILTER
"""

from __future__ import annotations

import json
import sys
import time

from pyiceberg.table import StaticTable


def main() -> None:
    """Plan once and print how long it took."""
    metadata_file, where = sys.argv[1:]
    table = StaticTable.from_metadata(metadata_file)
    started = time.perf_counter()
    files = sum(1 for _ in table.scan(row_filter=where).plan_files())
    seconds = time.perf_counter() - started
    print(json.dumps({"seconds": seconds, "files": files}))


if __name__ == "__main__":
    main()
