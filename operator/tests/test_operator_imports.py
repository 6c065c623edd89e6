"""Importing the operator loads neither Spark nor Arrow nor a Kubernetes client."""

from __future__ import annotations

import subprocess
import sys

OPTIONAL = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "kubernetes", "minio")


def test_the_embedded_reconciler_needs_the_base_install_only() -> None:
    code = (
        "import sys, tideline_operator.local.run_tables, tideline_operator.__main__\n"
        f"print([name for name in {OPTIONAL} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_controller_needs_neither_spark_nor_arrow() -> None:
    needless = tuple(name for name in OPTIONAL if name != "kubernetes")
    code = (
        "import sys, tideline_operator.controller.main\n"
        f"print([name for name in {needless} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[]", done.stderr


def test_the_list_of_commands_loads_none_of_them() -> None:
    code = (
        "import sys\n"
        "from tideline.cli.main import run\n"
        "run(['--help'])\n"
        "parts = ('tideline.hudi', 'tideline.iceberg', 'tideline_operator.decide')\n"
        "print([name for name in sys.modules if name.startswith(parts)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "run " in done.stdout, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]", done.stdout
