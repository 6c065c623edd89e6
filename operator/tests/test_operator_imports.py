"""Importing the operator loads neither Spark nor Arrow nor a Kubernetes client."""

from __future__ import annotations

import subprocess
import sys

OPTIONAL = ("pyspark", "py4j", "pyarrow", "pandas", "numpy", "kubernetes", "minio")


def test_the_embedded_reconciler_needs_the_base_install_only() -> None:
    code = (
        "import sys, tideline_operator.local.run, tideline_operator.__main__\n"
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
