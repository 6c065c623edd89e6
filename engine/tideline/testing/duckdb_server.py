"""What runs DuckDB inside the Iceberg peer's virtual environment, with its extension for Iceberg.

Started as a script by `IcebergPeer`, apart from the JVM: some tables end DuckDB's whole process.
It must not import Tideline, which that environment does not hold. Rows travel as parquet files: a
reply names the file that holds the answer. Extensions are those of packages that the environment
holds, loaded from their folders; nothing is downloaded, nor installed in the user's home.
"""

from __future__ import annotations

import importlib.util
import sys
import uuid
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from json_line_server import claim_standard_output, serve  # type: ignore[import-not-found]

# That for Iceberg asks for that for Avro.
EXTENSIONS = ("avro", "iceberg")


class DuckDBOperations:
    """The requests this process answers."""

    def __init__(self, answers: Path) -> None:
        self._answers = answers
        self._connection = duckdb.connect(config={"autoload_known_extensions": False})
        self._connection.execute("set TimeZone = 'UTC'")
        for name in EXTENSIONS:
            self._connection.execute(f"load '{extension_file(name)}'")

    def read(self, metadata_file: str, columns: str, where: str, snapshot_id: int | None) -> str:
        """Rows of a table's current snapshot, or of another of its snapshots."""
        chosen = "" if snapshot_id is None else f", snapshot_from_id = {snapshot_id}"
        return self._answer(
            f"select {columns} from iceberg_scan(?{chosen}) where {where}", metadata_file
        )

    def read_file(self, path: str, where: str) -> str:
        """Rows of one parquet file."""
        return self._answer(f"select * from read_parquet(?) where {where}", path)

    def _answer(self, statement: str, argument: str) -> str:
        try:
            rows = self._connection.execute(statement, [argument]).to_arrow_table()
        except (duckdb.InternalException, duckdb.FatalException) as failure:
            print(f"DuckDB answers nothing after this: {failure}", file=sys.stderr, flush=True)
            raise SystemExit(1) from failure
        path = str(self._answers / f"{uuid.uuid4()}.parquet")
        pq.write_table(rows, path)
        return path


def extension_file(name: str) -> Path:
    """Where its package keeps an extension. Raises RuntimeError when none is for this DuckDB."""
    package = importlib.util.find_spec(f"duckdb_extension_{name}")
    if package is None or package.origin is None:
        raise RuntimeError(f"there is no package duckdb-extension-{name} for this platform")
    folder = Path(package.origin).parent / "extensions"
    file = folder / f"v{duckdb.__version__}" / f"{name}.duckdb_extension"
    if not file.exists():
        held = sorted(path.name for path in folder.iterdir())
        raise RuntimeError(f"duckdb-extension-{name} is for {held}, not {duckdb.__version__}")
    return file


def main() -> None:
    """Load the extensions and answer until standard input ends."""
    replies = claim_standard_output()
    answers = Path.cwd() / "duckdb-answers"
    answers.mkdir(exist_ok=True)
    operations = DuckDBOperations(answers)
    serve({"read": operations.read, "read_file": operations.read_file}, replies)


if __name__ == "__main__":
    main()
