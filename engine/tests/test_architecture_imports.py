"""What importing costs: heavy dependencies stay out until something needs them.

Each check runs in a process of its own, because this one has imported everything already.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

OPTIONAL_DEPENDENCIES = ("pyspark", "pyarrow", "pandas", "numpy", "kubernetes", "minio")
MOVING_NO_ROWS = (
    "tideline.storage.s3.store",
    "tideline.storage.lock",
    "tideline.hudi.timeline.active",
    "tideline.formats.avro",
    "tideline.hudi.table.hoodie_table",
    "tideline.hudi.recovery.execute",
    "tideline.hudi.services.cleaning.execute",
    "tideline.hudi.services.savepoint.execute",
    "tideline.hudi.services.restore.execute",
    "tideline.hudi.services.partition_ttl.execute",
    "tideline.cli.main",
    "tideline.cli.show",
    "tideline.cli.timeline",
    "tideline.cli.files",
    "tideline.cli.check",
    "tideline.hudi.services.archival.execute",
    "tideline.hudi.timeline.archived",
    "tideline.cli.execute",
    "tideline.ingest.execute.execute_operation",
    "tideline.lake_table",
    "tideline.cli.savepoint",
    "tideline.cli.restore",
)


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )


def test_importing_tideline_brings_in_no_optional_dependency() -> None:
    done = run_python(
        f"""
        import sys
        import tideline
        print([name for name in {OPTIONAL_DEPENDENCIES} if name in sys.modules])
        """
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_tideline_offers_its_names_lazily_and_no_others() -> None:
    done = run_python(
        """
        import tideline
        assert tideline.create.__self__ is tideline.LakeTable
        assert tideline.open.__self__ is tideline.LakeTable
        assert tideline.register.__module__ == "tideline.spark.read.data_source"
        assert tideline.errors.ConflictError.exit_code == 3
        assert tideline.__version__
        assert set(tideline.__all__) <= set(dir(tideline))
        try:
            tideline.nothing
        except AttributeError as error:
            print(error)
        """
    )
    assert "no attribute 'nothing'" in done.stdout, done.stderr


def test_work_that_moves_no_rows_needs_no_spark_and_no_arrow() -> None:
    done = run_python(
        f"""
        import importlib, sys
        sys.modules.update(dict.fromkeys({OPTIONAL_DEPENDENCIES}))  # importing one now fails
        for module in {MOVING_NO_ROWS}:
            try:
                importlib.import_module(module)
            except ImportError as error:
                print(module, error)
        """
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_rows_are_read_without_spark(tmp_path: Path) -> None:
    done = run_python(
        f"""
        import sys
        sys.modules["pyspark"] = None  # importing it now fails
        from tideline.cli.main import main
        from tideline.testing.small_table import SmallTable, batch
        from tideline.storage.location import StoreLocation
        table = SmallTable.create(StoreLocation.of({str(tmp_path / "t")!r}))
        table.write("insert", batch(range(3), 1, partitions=1))
        print(table.lake().to_arrow(["id"])["id"].to_pylist())
        main(["read", {str(tmp_path / "t")!r}, "--json"])
        """
    )
    assert "['k000', 'k001', 'k002']" in done.stdout, done.stderr
    assert '"complete": true' in done.stdout, done.stderr
