"""Prints a table's rows as hudi-rs reads them, one JSON object per line; runs in the peers' Python.

It must not import Tideline, which that environment does not hold.
"""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from hudi import HudiReadOptions, HudiTableBuilder  # type: ignore[import-not-found]


def main() -> None:
    table = HudiTableBuilder.from_base_uri(sys.argv[1]).build()
    batches = table.read(HudiReadOptions())
    for row in pa.Table.from_batches(batches).to_pylist() if batches else []:
        print(json.dumps(row, default=str))


if __name__ == "__main__":
    main()
