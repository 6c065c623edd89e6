"""Create an SQL catalog with several small Iceberg tables, as writers leave them behind.

PyIceberg appends to each table many times, so that all of them need maintenance. Nothing is random.

    python examples/iceberg/make_catalog.py out/lake
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

CATALOG = "shop"
TABLES = ("sales.orders", "sales.returns", "sales.tmp_import", "stock.levels")
APPENDS = 8
ROWS_PER_APPEND = 500


def main() -> None:
    """Create the catalog below the folder that is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder for the catalog and its tables")
    folder: Path = parser.parse_args().folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    catalog = SqlCatalog(
        CATALOG, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    for name in TABLES:
        catalog.create_namespace_if_not_exists(name.partition(".")[0])
        table = catalog.create_table(name, rows(0).schema)
        for number in range(APPENDS):
            table.append(rows(number))
        print(f"{name}: {APPENDS} data files, {APPENDS} snapshots")


def rows(number: int) -> pa.Table:
    """The rows of one append."""
    first = number * ROWS_PER_APPEND
    return pa.table({"id": pa.array(range(first, first + ROWS_PER_APPEND), pa.int64())})


if __name__ == "__main__":
    main()
