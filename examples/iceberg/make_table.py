"""Create an Iceberg table as a stream of small appends leaves it, in its own SQL catalog.

PyIceberg writes the orders of some shops, one small file per shop and append, and deletes a few of
them, so that the table needs maintenance: small files, many snapshots, many manifests. Nothing is
random, so every run writes the same rows.

    python examples/iceberg/make_table.py out/iceberg
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.transforms import IdentityTransform

CATALOG = "shop"
TABLE = "sales.orders"
SHOPS = ("Aachen", "Bergen", "Cádiz", "Delft")
APPENDS = 12
ROWS_PER_APPEND = 2_000


def main() -> None:
    """Create the table below the folder that is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder for the catalog and the table")
    folder: Path = parser.parse_args().folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    catalog = SqlCatalog(
        CATALOG, uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse"
    )
    catalog.create_namespace(TABLE.partition(".")[0])
    table = catalog.create_table(TABLE, orders(0).schema)
    with table.update_spec() as update:
        update.add_field("shop", IdentityTransform(), "shop")
    for number in range(APPENDS):
        table.append(orders(number))
    table.delete("amount < 0.5")
    files = table.inspect.files()
    print(f"{folder}: {len(table.scan().to_arrow()):,} rows in {files.num_rows} data files,")
    print(f"{len(table.snapshots())} snapshots, {table.inspect.manifests().num_rows} manifests")


def orders(number: int) -> pa.Table:
    """The orders of one append."""
    ids = np.arange(number * ROWS_PER_APPEND, (number + 1) * ROWS_PER_APPEND)
    return pa.table(
        {
            "order_id": pa.array(ids, pa.int64()),
            "shop": pa.array(np.array(SHOPS)[ids % len(SHOPS)]),
            "amount": pa.array((ids * 7919 % 10_000) / 100.0),
        }
    )


if __name__ == "__main__":
    main()
